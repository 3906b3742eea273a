"""The `scf` dialect: structured control flow.

The operations with regions have a syntax of their own, read in
`ttools.interpreter.parser.structured`. Formats: https://mlir.llvm.org/docs/Dialects/SCFDialect/
"""

from __future__ import annotations

from ttools.interpreter.dialects.declaration import Op
from ttools.interpreter.dialects.traits import LOOP, PURE, STRUCTURED, TERMINATOR

OPERATIONS: dict[str, Op] = {
    "scf.for": Op(
        operands=("lower", "upper", "step", "inits"), traits=frozenset({STRUCTURED, LOOP, PURE})
    ),
    "scf.while": Op(operands=("inits",), traits=frozenset({STRUCTURED, LOOP, PURE})),
    "scf.if": Op(operands=("condition",), traits=frozenset({STRUCTURED, PURE})),
    "scf.yield": Op(
        "attr-dict ($results* `:` type($results*))?", (), traits=frozenset({PURE, TERMINATOR})
    ),
    "scf.condition": Op(
        "`(` $condition `)` attr-dict ($args* `:` type($args*))?",
        (),
        traits=frozenset({PURE, TERMINATOR}),
    ),
}
