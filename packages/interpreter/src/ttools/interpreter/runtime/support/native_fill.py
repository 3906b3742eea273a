"""Fills memory with a word, in native code (`native_fill.c`)."""

from __future__ import annotations

from ttools.core.lazy_values import once
from ttools.interpreter.native import jit
from ttools.interpreter.native.native_module import module_beside
from ttools.interpreter.runtime.support.shared_job import run_job

BLOCK_WORDS = 1 << 13


def fill_words(address: int, words: int, word: int) -> None:
    """Fill memory with copies of a word.

    Args:
        address: Address of the first word; a multiple of 8.
        words: Number of words of 8 bytes.
        word: Value of the word, an unsigned integer of 64 bits.
    """
    run_job(_code(), -(-words // BLOCK_WORDS), (words, address, word), worthwhile=8)


@once
def _code() -> jit.NativeCode:
    return module_beside(__file__, ("fill",), name="filling memory")
