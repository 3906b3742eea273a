"""Marks of where a kernel makes tensor descriptors, which outlast the rewriting of those.

Triton rewrites a descriptor to the pointers and masks of its accesses, after which nobody can tell
what it was made of. A mark is a `tt.print` with a prefix of ours, which no pass removes and which
keeps its operands alive. The parser makes `ttools.descriptor` of it, which nothing prints. Must not
know what is right of a descriptor.
"""

from __future__ import annotations

import re
from typing import Any

from ttools.core.triton_versions import print_operands
from ttools.ir.parser.marks import DESCRIPTOR_MARK

_BLOCK = re.compile(r"!tt\.tensordesc<(?:tensor<)?([\dx]+x\w+)")
_LINE = re.compile(rf'^[^\n]*tt\.print "{DESCRIPTOR_MARK}[^\n]*\n', re.MULTILINE)


def mark_descriptors(module: Any) -> None:
    """Puts a mark behind each descriptor that a kernel makes.

    Args:
        module: Triton's, as its front end writes it.
    """
    print_operands(module, "tt.make_tensor_descriptor", _mark)


def _mark(type: str) -> str | None:
    block = _BLOCK.match(type)
    return f"{DESCRIPTOR_MARK}{block[1]}" if block else None


def without_marks(ttir: str) -> str:
    """The text of a module for compilers that would print them."""
    return _LINE.sub("", ttir) if DESCRIPTOR_MARK in ttir else ttir
