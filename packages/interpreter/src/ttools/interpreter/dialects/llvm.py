"""The one operation of the `llvm` dialect that TTIR holds: `tl.assume`."""

from __future__ import annotations

from ttools.interpreter.dialects.declaration import OpSyntax

OPERATIONS: dict[str, OpSyntax] = {
    "llvm.intr.assume": OpSyntax("$cond attr-dict `:` type($cond)", ()),
}
