"""Barriers inside a program, which `tl.debug_barrier` makes of other dialects' operations."""

from __future__ import annotations

from ttools.interpreter.dialects.declaration import OpSyntax

OPERATIONS: dict[str, OpSyntax] = {
    "gpu.barrier": OpSyntax("(`memfence` attribute($address_spaces))? attr-dict", ()),
    "ttg.barrier": OpSyntax("words($addrSpace) attr-dict", ()),
    "ttg.local_barrier": OpSyntax("attr-dict", ()),
}
