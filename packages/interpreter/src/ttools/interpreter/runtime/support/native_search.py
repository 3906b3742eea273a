"""Searches memory for halves of a word, at the speed of reading it (`native_search.c`)."""

from __future__ import annotations

from ttools.core.lazy_values import once
from ttools.interpreter.native import jit
from ttools.interpreter.native.native_module import module_beside
from ttools.interpreter.runtime.support.shared_job import run_job

#: The number of halves that are compared before the result is tested; an even number.
ROUND_WORDS = 1 << 10
#: The number of halves that a thread takes at a time; an even number.
BLOCK_WORDS = 1 << 16


def holds_half(address: int, halves: int, word: int) -> bool:
    """Return whether memory contains the low or the high half of a word at the matching position.

    Args:
        address: Address of the first word; it need not be aligned.
        halves: Number of halves of 4 bytes. Halves with an even index are compared with the low
            half of the word, those with an odd index with the high half.
        word: Value of the word, an unsigned integer of 64 bits.
    """
    blocks = -(-halves // BLOCK_WORDS)
    *_, position = run_job(_code(), blocks, (halves, address, word, 0), worthwhile=4)
    return bool(position)


@once
def _code() -> jit.NativeCode:
    return module_beside(__file__, ("search",), name="searching memory")
