"""Tests of the native search for halves of a word, compared with NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from ttools.interpreter.runtime.support.native_search import (
    BLOCK_WORDS,
    ROUND_WORDS,
    holds_half,
)

#: Number of words that several threads share.
_MOST = 9 * BLOCK_WORDS
_COUNTS = st.integers(0, 40) | st.integers(0, _MOST)


@given(_COUNTS, st.integers(0, 7), st.integers(0, _MOST) | st.none(), st.integers(0, 2**64 - 1))
@example(ROUND_WORDS, 0, ROUND_WORDS - 1, 1)
@example(ROUND_WORDS + 1, 3, ROUND_WORDS, 1 << 40)
@example(BLOCK_WORDS, 0, BLOCK_WORDS - 1, 1)
@example(_MOST, 5, _MOST - 1, 3)
@example(BLOCK_WORDS, 2, BLOCK_WORDS, 2)
@example(2 * BLOCK_WORDS + 1, 1, 2 * BLOCK_WORDS, 0)
def test_halves_are_found_at_their_position_only(
    count: int, first: int, at: int | None, word: int
) -> None:
    memory = np.full(4 * _MOST + 12, 77, np.uint8)
    halves = memory[first : first + 4 * _MOST + 4].view(np.uint32)
    own = np.array([word], np.uint64).view(np.uint32)[np.arange(halves.size) % 2]
    halves[:] = own ^ np.uint32(0x80000001)
    if at is not None:
        halves[at] = own[at]
    actual = holds_half(memory.ctypes.data + first, count, word)
    assert actual == bool((halves[:count] == own[:count]).any())


def test_a_half_at_the_other_position_is_not_found() -> None:
    memory = np.zeros(4 * _MOST, np.uint8)
    memory[4 * BLOCK_WORDS + 2 : 4 * BLOCK_WORDS + 6] = 0xAB
    word = 0xABABABAB << 32 | 0x12345678
    assert not holds_half(memory.ctypes.data, _MOST, word)
    memory[8 * BLOCK_WORDS : 8 * BLOCK_WORDS + 4] = 0xAB
    assert not holds_half(memory.ctypes.data, _MOST, word), "a high half in a low one's place"
    memory[8 * BLOCK_WORDS + 4 : 8 * BLOCK_WORDS + 8] = 0xAB
    assert holds_half(memory.ctypes.data, _MOST, word)
