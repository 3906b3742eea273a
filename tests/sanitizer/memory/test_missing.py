"""Missing elements: which they are, whatever view they are seen through, and what is said."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, strategies

from ttools.sanitizer.memory.missing import Missing, View, may_be_missing, missing_bytes
from ttools.sanitizer.memory.pattern import NAN_PATTERN, PATTERN, fill


@given(
    data=strategies.data(),
    dtype=strategies.sampled_from([torch.float64, torch.int32, torch.float32]),
    shape=strategies.lists(strategies.integers(1, 5), min_size=1, max_size=3),
    pattern=strategies.sampled_from([PATTERN, NAN_PATTERN]),
)
def test_elements_are_missing_unless_written(data, dtype, shape, pattern) -> None:
    storage = torch.zeros(200, dtype=dtype)
    own = storage.numpy().view(np.uint8)
    fill(storage.data_ptr(), own.size, 0, pattern)
    strides = data.draw(strategies.permutations([1, 6, 30][: len(shape)]))
    view = storage.as_strided(shape, strides, data.draw(strategies.integers(0, 9)))
    written = data.draw(strategies.lists(strategies.booleans(), min_size=200, max_size=200))
    storage[torch.tensor(written)] = 1
    marks = View.of(view).marked(missing_bytes(own, storage.element_size(), pattern))
    numbers = torch.arange(200).as_strided(shape, strides, view.storage_offset())
    expected = [not written[n] for n in numbers.reshape(-1).tolist()]
    assert marks.shape == view.shape
    assert marks.reshape(-1).tolist() == expected
    assert may_be_missing(own, pattern) == (not all(written))


def test_small_elements_count_in_company() -> None:
    own = np.zeros(20, np.uint8)
    pattern = np.frombuffer(PATTERN * 3, np.uint8)[:20]
    own[4:6] = pattern[4:6]
    assert not missing_bytes(own, 2).any(), "one element of two bytes may hold anything"
    own[6:8] = pattern[6:8]
    assert missing_bytes(own, 2).tolist() == [4 <= n < 8 for n in range(20)]
    own[18:] = pattern[18:]
    assert missing_bytes(own, 2)[18:].all(), "a tail is likely to be left"
    assert may_be_missing(own[18:])


def sentences(marks: list[bool], *shape: int) -> tuple[str, ...]:
    return Missing.of(np.array(marks).reshape(shape)).sentences()


def test_what_is_said_of_them() -> None:
    assert sentences([False, True], 2) == ("element 1 of 2",)
    assert sentences([True] * 3, 3) == ("elements 0 to 2 of 3",)
    assert sentences([True, False] * 3, 6) == ("elements 0, 2, 4 of 6",)
    assert sentences([True, False] * 4, 8) == ("elements 0, 2, 4 and one more range of 8",)
    assert sentences([True, False] * 9, 18) == ("elements 0, 2, 4 and 6 more ranges of 18",)
    text, indices = sentences([False, False, True, True], 2, 2)
    assert (text, indices) == ("elements 2 to 3 of 4", "the first by index: [1, 0], [1, 1]")
    assert sentences([True]) == ("element 0 of 1",)
    assert Missing.of(np.array([False, True])).at_end
    assert not Missing.of(np.array([True, False])).at_end
