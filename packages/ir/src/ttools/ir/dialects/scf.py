"""The `scf` dialect: structured control flow.

The formats are documented at https://mlir.llvm.org/docs/Dialects/SCFDialect/. The operations with
regions have a custom syntax, which `ttools.ir.parser.structured` parses.
"""

from __future__ import annotations

from ttools.ir.dialects.declaration import Op
from ttools.ir.dialects.flow import Edge
from ttools.ir.dialects.traits import (
    CONDITIONAL,
    COUNTED,
    LOOP,
    PURE,
    STRUCTURED,
    TERMINATOR,
    UNCOUNTED,
)

#: The last edge is taken if the loop has no iterations: the results of the loop are then the
#: initial values.
_FOR = (Edge(None, 0, 3, 1), Edge(0, 0, own=1), Edge(0, None), Edge(None, None, 3))
#: The first operand of the first region's terminator, `scf.condition`, is not passed on.
_WHILE = (Edge(None, 0), Edge(1, 0), Edge(0, 1, 1), Edge(0, None, 1))
_IF = (Edge(None, 0, 1), Edge(None, 1, 1), Edge(0, None), Edge(1, None))

OPERATIONS: dict[str, Op] = {
    "scf.for": Op(
        operands=("lower", "upper", "step", "inits"),
        traits=frozenset({STRUCTURED, LOOP, COUNTED, PURE}),
        flow=_FOR,
    ),
    "scf.while": Op(
        operands=("inits",), traits=frozenset({STRUCTURED, LOOP, UNCOUNTED, PURE}), flow=_WHILE
    ),
    "scf.if": Op(
        operands=("condition",), traits=frozenset({STRUCTURED, CONDITIONAL, PURE}), flow=_IF
    ),
    "scf.yield": Op(
        "attr-dict ($results* `:` type($results*))?", (), traits=frozenset({PURE, TERMINATOR})
    ),
    "scf.condition": Op(
        "`(` $condition `)` attr-dict ($args* `:` type($args*))?",
        (),
        traits=frozenset({PURE, TERMINATOR}),
    ),
}
