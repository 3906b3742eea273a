"""Reads fields of the launch structure in emitted code."""

from __future__ import annotations

from ttools.interpreter.abi.launch_layout import offset
from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.value import LAUNCH, SSAValue


def launch_field(b: Builder, name: str, type: str) -> SSAValue:
    """Loads a field; `type` is what LLVM calls it."""
    p = b.offset(LAUNCH, offset(name))
    return b.load(type, p, 8 if type in ("i64", "ptr") else 4)
