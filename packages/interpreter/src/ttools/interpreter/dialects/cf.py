"""The `cf` dialect: branches between blocks.

`cf.switch` has a syntax of its own, read in `ttools.interpreter.parser.structured`.
Formats: https://mlir.llvm.org/docs/Dialects/ControlFlowDialect/
"""

from __future__ import annotations

from ttools.interpreter.dialects.declaration import OpSyntax

OPERATIONS: dict[str, OpSyntax] = {
    "cf.br": OpSyntax("successor attr-dict", ()),
    "cf.cond_br": OpSyntax(
        "$condition (`weights` `(` attribute($branch_weights) `)`)? `,` successor `,` successor"
        " attr-dict",
        (),
    ),
    "cf.assert": OpSyntax("$arg `,` string($msg) attr-dict", ()),
}
