"""Searches memory for halves of a word, as fast as memory is read: `native_search.c`."""

from __future__ import annotations

from ttools.core.lazy_values import once
from ttools.interpreter.native import jit
from ttools.interpreter.native.native_module import module_beside
from ttools.interpreter.runtime.support.shared_job import run_job

#: Halves that are compared before the result is looked at; even, as blocks are.
ROUND_WORDS = 1 << 10
#: Halves that a thread takes at a time.
BLOCK_WORDS = 1 << 16


def holds_half(address: int, halves: int, word: int) -> bool:
    """Return whether memory holds the low or the high half of a word at its place.

    Args:
        address: Address of the first word; it need not be aligned.
        halves: Number of halves, 4 bytes each. Even ones are compared with the low half of the
            word, odd ones with the high half.
        word: Value of the word, an unsigned integer of 64 bits.
    """
    blocks = -(-halves // BLOCK_WORDS)
    *_, position = run_job(_code(), blocks, (halves, address, word, 0), worthwhile=4)
    return bool(position)


@once
def _code() -> jit.NativeCode:
    return module_beside(__file__, ("search",), name="searching memory")
