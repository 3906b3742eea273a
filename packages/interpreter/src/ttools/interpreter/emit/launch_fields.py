"""Loads of fields of the launch structure in emitted code."""

from __future__ import annotations

from ttools.interpreter.abi.launch_layout import offset, size_and_type
from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.value import LAUNCH, SSAValue


def launch_field(b: Builder, name: str) -> SSAValue:
    """Load a field of the launch structure.

    Args:
        name: The name of a field of `NativeLaunch`.
    """
    size, type = size_and_type(name)
    return b.load(type, b.offset(LAUNCH, offset(name)), size)
