"""Words that are looked for natively, against NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from ttools.interpreter.runtime.support.native_search import (
    _BLOCK_WORDS,
    _ROUND_WORDS,
    holds_word,
)

#: Enough for several threads.
_MOST = 9 * _BLOCK_WORDS
_COUNTS = st.integers(0, 40) | st.integers(0, _MOST)


@given(_COUNTS, st.integers(0, 7), st.integers(0, _MOST) | st.none(), st.integers(0, 2**32 - 1))
@example(_ROUND_WORDS, 0, _ROUND_WORDS - 1, 1)
@example(_ROUND_WORDS + 1, 3, _ROUND_WORDS, 1)
@example(_BLOCK_WORDS, 0, _BLOCK_WORDS - 1, 1)
@example(_MOST, 5, _MOST - 1, 3)
@example(_BLOCK_WORDS, 2, _BLOCK_WORDS, 2)
@example(2 * _BLOCK_WORDS + 1, 1, 2 * _BLOCK_WORDS, 0)
def test_a_word_is_found_where_it_is_and_nowhere_else(
    count: int, first: int, at: int | None, word: int
) -> None:
    memory = np.full(4 * _MOST + 12, 77, np.uint8)
    words = memory[first : first + 4 * _MOST + 4].view(np.uint32)
    words[:] = word ^ 0x80000001
    if at is not None:
        words[at] = word
    found = holds_word(memory.ctypes.data + first, count, word)
    assert found == bool((words[:count] == word).any())


def test_a_word_between_words_is_none() -> None:
    memory = np.zeros(4 * _MOST, np.uint8)
    memory[4 * _BLOCK_WORDS + 2 : 4 * _BLOCK_WORDS + 6] = 0xAB
    assert not holds_word(memory.ctypes.data, _MOST, 0xABABABAB)
    assert holds_word(memory.ctypes.data + 2, _MOST - 1, 0xABABABAB)
