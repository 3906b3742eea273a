"""What is said where a kernel has broken a GPU's context, in which nothing works from then on."""

from __future__ import annotations

from ttools.cli.console import say

#: Of torch's errors that a kernel's access to memory causes, whichever call meets them.
_WORDS = ("illegal memory access", "misaligned address", "address space", "unspecified launch fail")
_FOUND_BY = "a kernel accessed memory that it must not: `ttools sanitize` finds where"


def note_broken_gpu(error: BaseException) -> None:
    """Says after the traceback of a script that ends by such an error what finds its cause."""
    text = str(error)
    if "CUDA error" in text and any(words in text for words in _WORDS):
        say("note", _FOUND_BY)
