"""Decides which elements are certainly unwritten, from the pattern that fills unwritten memory.

Written data may contain the pattern by chance, so that short matches are no evidence.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, strategies

from ttools.sanitizer.memory.evidence import certain, certain_by_words
from ttools.sanitizer.memory.pattern import (
    fill,
    holding,
    holds_half,
    may_be_missing,
    new_word,
    word_in,
)

MARKS = strategies.lists(strategies.booleans(), min_size=1, max_size=40)


@given(MARKS, strategies.data())
def test_without_unseen_writers_every_mark_is_right(
    marks: list[bool], data: strategies.DataObject
) -> None:
    marked = np.array(marks)
    # Bytes that were written in a known way may hold any value, including the pattern.
    extra = data.draw(strategies.lists(strategies.booleans(), min_size=len(marks), max_size=40))
    matching = marked | np.array(extra[: len(marks)])
    assert certain(marked, matching).tolist() == marks


@given(MARKS)
def test_with_unseen_writers_whole_words_are_certain(marks: list[bool]) -> None:
    matching = np.array(marks)
    sure = certain_by_words(matching)
    assert not (sure & ~matching).any()
    for first in range(0, len(marks) - 7, 8):
        if matching[first : first + 8].all():
            assert sure[first : first + 8].all()
    for first in range(0, len(marks), 4):
        half = matching[first : first + 4]
        if not half.all():
            assert not sure[first : first + 4].any(), "half a word is the least evidence"


def halves(*which: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return marks for 16 half words."""
    return np.repeat([n in which for n in range(16)], 4)


@pytest.mark.parametrize(
    ("marked_halves", "sure"),
    [
        ((3,), ()),  # a single half word may be a number
        ((2, 3, 4), (2, 3, 4)),  # half words beside a whole word
        ((2, 3, 5), (2, 3)),
        ((1, 5), ()),
        ((1, 5, 8), (1, 5, 8)),  # three half words cannot match by chance
    ],
)
def test_halves_of_words(marked_halves: tuple[int, ...], sure: tuple[int, ...]) -> None:
    assert certain_by_words(halves(*marked_halves)).tolist() == halves(*sure).tolist()


@pytest.mark.parametrize("poison", [False, True])
def test_properties_of_words(poison: bool) -> None:
    random = Random(0)
    words = [new_word(random, poison=poison) for _ in range(2000)]
    assert len(set(words)) > 1980
    assert all(word[:4] != word[4:] and word[:2] != word[2:4] for word in words)
    values = np.frombuffer(b"".join(words), np.uint8)
    for size in (1, 2, 4, 8):
        assert poison or (values.view(f"i{size}") < 0).all(), "a loop with such a bound has to end"
    for size in (2, 4, 8):
        assert (np.isnan(values.view(f"f{size}")) == poison).all()
    wide = (values.view(np.uint16).astype(np.uint32) << 16).view(np.float32)  # as bfloat16
    assert (np.isnan(wide) == poison).all()


@pytest.mark.parametrize("nbytes", [4, 8, 12, 100, 5000])
def test_the_word_of_filled_memory_is_recognised(nbytes: int) -> None:
    word = new_word(Random(nbytes))
    memory = np.zeros(nbytes, np.uint8)
    assert word_in(memory) is None
    fill(memory.ctypes.data, nbytes, 0, word)
    word_found = word_in(memory)
    assert word_found is not None
    assert holding(memory, word_found).all()


def test_random_memory_holds_no_word() -> None:
    random = np.random.default_rng(0)
    memory = random.integers(0, 256, 1 << 22, np.uint8)
    assert word_in(memory) is None
    assert word_in(memory | np.uint8(0x80)) is None


@given(strategies.integers(1, 40), strategies.data())
def test_memory_with_a_remaining_half_word_is_a_candidate(
    count: int, data: strategies.DataObject
) -> None:
    word = new_word(Random(count))
    memory = np.zeros(count, np.uint8)
    assert not holds_half(memory, word)
    first = data.draw(strategies.integers(0, (count - 1) // 4)) * 4
    size = min(4, count - first)
    pattern = np.frombuffer(word * (count // 8 + 1), np.uint8)
    memory[first : first + size] = pattern[first : first + size]
    assert holds_half(memory, word)
    assert may_be_missing(memory, word)
