"""Tests of native filling of memory, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ttools.interpreter.runtime.support.native_fill import BLOCK_WORDS, fill_words

_MOST = 3 * BLOCK_WORDS


@given(st.integers(0, 40) | st.integers(0, _MOST), st.integers(0, 9), st.integers(0, 2**64 - 1))
@example(BLOCK_WORDS, 0, 1)
@example(BLOCK_WORDS + 1, 7, 2)
def test_exactly_the_words_are_written(words: int, first: int, word: int) -> None:
    memory = np.full(_MOST + 20, 77, np.uint64)
    expected = memory.copy()
    expected[first : first + words] = word
    fill_words(memory.ctypes.data + 8 * first, words, word)
    np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_threads_share_large_fills(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTOOLS_THREADS", threads)
    memory = np.zeros(50 * BLOCK_WORDS + 3, np.uint64)
    for word in range(1, 20):
        fill_words(memory.ctypes.data, len(memory) - 1, word)
        assert (memory[:-1] == word).all()
    assert memory[-1] == 0
