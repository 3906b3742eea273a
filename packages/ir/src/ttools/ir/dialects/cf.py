"""The `cf` dialect: branches between blocks.

The formats are documented at https://mlir.llvm.org/docs/Dialects/ControlFlowDialect/.
`cf.switch` has a custom syntax, which `ttools.ir.parser.structured` parses.
"""

from __future__ import annotations

from ttools.ir.dialects.declaration import Op
from ttools.ir.dialects.traits import BRANCH, EFFECT, TERMINATOR

OPERATIONS: dict[str, Op] = {
    "cf.br": Op("successor attr-dict", (), traits=frozenset({BRANCH, TERMINATOR})),
    "cf.cond_br": Op(
        "$condition (`weights` `(` attribute($branch_weights) `)`)? `,` successor `,` successor"
        " attr-dict",
        (),
        traits=frozenset({BRANCH, TERMINATOR}),
    ),
    "cf.assert": Op("$arg `,` string($msg) attr-dict", (), traits=frozenset({EFFECT})),
    "cf.switch": Op(operands=("flag",), traits=frozenset({BRANCH, TERMINATOR})),
}
