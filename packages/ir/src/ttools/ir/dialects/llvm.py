"""The `llvm` dialect: the assumption that `tl.assume` creates, its only operation in TTIR."""

from __future__ import annotations

from ttools.ir.dialects.declaration import Op
from ttools.ir.dialects.traits import EFFECT

OPERATIONS: dict[str, Op] = {
    "llvm.intr.assume": Op("$cond attr-dict `:` type($cond)", (), traits=frozenset({EFFECT})),
}
