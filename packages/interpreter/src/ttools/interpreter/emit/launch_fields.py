"""Reads fields of the launch structure in emitted code."""

from __future__ import annotations

from ttools.interpreter.abi.launch_layout import offset
from ttools.interpreter.llvm.builder import Builder


def launch_field(b: Builder, name: str, type: str) -> str:
    """Loads a field; `type` is what LLVM calls it."""
    p = b.emit(f"getelementptr inbounds i8, ptr %launch, i64 {offset(name)}")
    return b.emit(f"load {type}, ptr {p}, align {8 if type in ('i64', 'ptr') else 4}")
