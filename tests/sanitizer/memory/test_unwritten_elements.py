"""Unwritten elements of a view, computed from unwritten bytes, and their description."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import given, strategies

from ttools.core.spec import view_spec
from ttools.sanitizer.memory.unwritten_elements import Missing, marked_elements


@given(
    data=strategies.data(),
    dtype=strategies.sampled_from([torch.float64, torch.int32, torch.float16, torch.int8]),
    shape=strategies.lists(strategies.integers(1, 5), min_size=1, max_size=3),
)
def test_elements_are_unwritten_if_one_of_their_bytes_is(
    data: Any, dtype: torch.dtype, shape: list[int]
) -> None:
    storage = torch.zeros(200, dtype=dtype)
    strides = data.draw(strategies.permutations([1, 6, 30][: len(shape)]))
    view = storage.as_strided(shape, strides, data.draw(strategies.integers(0, 9)))
    byte = data.draw(strategies.integers(0, storage.element_size() - 1))
    unwritten_bytes = data.draw(strategies.lists(strategies.booleans(), min_size=200, max_size=200))
    cells = np.zeros((200, storage.element_size()), np.bool_)
    cells[:, byte] = unwritten_bytes
    marks = marked_elements(view_spec(view), cells.reshape(-1))
    numbers = torch.arange(200).as_strided(shape, strides, view.storage_offset())
    assert marks.shape == view.shape
    assert marks.reshape(-1).tolist() == [unwritten_bytes[n] for n in numbers.reshape(-1).tolist()]


def sentences(marks: list[bool], *shape: int) -> tuple[str, ...]:
    return Missing.of(np.array(marks).reshape(shape)).sentences()


def test_description_of_missing_elements() -> None:
    assert sentences([False, True], 2) == ("element 1 of 2",)
    assert sentences([True] * 3, 3) == ("elements 0 to 2 of 3",)
    assert sentences([True, False] * 3, 6) == ("elements 0, 2, 4 of 6",)
    uneven = [True, False] * 3 + [False]
    assert sentences([*uneven, True], 8) == ("elements 0, 2, 4 and one more range of 8",)
    assert sentences(uneven * 3, 21) == ("elements 0, 2, 4 and 6 more ranges of 21",)
    assert sentences([True, False] + [False] * 1000 + [True] * 2, 1004) == (
        "elements 0; 1,002 to 1,003 of 1,004",
    )
    text, indices = sentences([False, False, True, True], 2, 2)
    assert (text, indices) == ("elements 2 to 3 of 4", "the first by index: [1, 0], [1, 1]")
    assert sentences([True]) == ("element 0 of 1",)
    assert Missing.of(np.array([False, True])).at_end
    assert not Missing.of(np.array([True, False])).at_end


def test_description_of_regular_missing_elements() -> None:
    assert sentences([False, True] * 9, 18) == ("elements 1, 3, 5, … of 18: every 2nd element",)
    assert sentences(([False] * 12 + [True]) * 5, 65) == (
        "elements 12, 25, 38, … of 65: every 13th element",
    )
    tails, indices = sentences(([False] * 5 + [True] * 3) * 200, 200, 8)
    assert (
        tails == "elements 5 to 7, 13 to 15, 21 to 23, … of 1,600: the last 3 of every 8 elements"
    )
    assert indices == "the first by index: [0, 5], [0, 6], [0, 7], …"
    heads = ([True] * 3 + [False] * 7) * 3 + [True] * 2
    assert sentences(heads, len(heads)) == (
        "elements 0 to 2, 10 to 12, 20 to 22, … of 32: the first 3 of every 10 elements",
    )
    middles = ([False] + [True] * 2 + [False]) * 4
    assert sentences(middles, 16) == (
        "elements 1 to 2, 5 to 6, 9 to 10, … of 16: 2 of every 4 elements",
    )
    # The last range is too short, but it does not reach the end of the tensor.
    assert "and one more range" in sentences([*heads, False], len(heads) + 1)[0]


def test_the_step_of_written_elements() -> None:
    assert Missing.of(np.array([False, True] * 9)).written_step == 2
    assert Missing.of(np.array(([False] + [True] * 3) * 9)).written_step == 4
    assert Missing.of(np.array(([False] * 2 + [True]) * 9)).written_step is None
    assert Missing.of(np.array([False, True])).written_step is None
