"""Marks tensor descriptors that a kernel creates, so that they can be found after Triton's passes.

Triton rewrites the accesses through a descriptor to pointers and masks, after which the
descriptor's shape and strides are lost. A mark is a `tt.print` with a special prefix, because no
pass removes a print, and it keeps its operands alive. The parser converts it to
`ttools.descriptor`, which prints nothing.
"""

from __future__ import annotations

import re
from typing import Any

from ttools.core.triton_versions import print_operands
from ttools.ir.parser.placeholder_prints import DESCRIPTOR_MARK

_BLOCK = re.compile(r"!tt\.tensordesc<(?:tensor<)?([\dx]+x\w+)")
_LINE = re.compile(rf'^[^\n]*tt\.print "{DESCRIPTOR_MARK}[^\n]*\n', re.MULTILINE)


def mark_descriptors(module: Any) -> None:
    """Insert a mark after each operation that creates a descriptor.

    Args:
        module: Triton's module, as the front end writes it.
    """
    print_operands(module, "tt.make_tensor_descriptor", _mark)


def _mark(type: str) -> str | None:
    block = _BLOCK.match(type)
    return f"{DESCRIPTOR_MARK}{block[1]}" if block else None


def without_marks(ttir: str) -> str:
    """Return the text of a module without marks, for other compilers, which would print them."""
    return _LINE.sub("", ttir) if DESCRIPTOR_MARK in ttir else ttir
