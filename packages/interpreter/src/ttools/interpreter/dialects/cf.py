"""The `cf` dialect: branches between blocks.

Formats: https://mlir.llvm.org/docs/Dialects/ControlFlowDialect/
"""

from __future__ import annotations

from ttools.interpreter.dialects.declaration import OpSyntax

OPERATIONS: dict[str, OpSyntax] = {
    "cf.br": OpSyntax("successor attr-dict", ()),
    "cf.cond_br": OpSyntax("$condition `,` successor `,` successor attr-dict", ()),
    "cf.assert": OpSyntax("$arg `,` string($msg) attr-dict", ()),
}
