"""Unwritten elements of a tensor, and sentences that name them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ttools.core.spec import TensorSpec

Bools = NDArray[np.bool_]

#: Maximum number of ranges, and maximum number of indices, in a sentence.
_SHOWN = 3


def consecutive(count: int, itemsize: int) -> TensorSpec:
    """Describe `count` elements of an unknown type at the start of a storage."""
    return TensorSpec(
        storage=0, offset=0, shape=(count,), strides=(1,), dtype="", itemsize=itemsize
    )


def by_element(view: TensorSpec, cells: NDArray[Any]) -> NDArray[Any]:
    """Arrange the cells of a storage, one per byte, by the elements of a view of the storage."""
    strides = *(stride * view.itemsize for stride in view.strides), 1
    return as_strided(cells[view.offset :], shape=(*view.shape, view.itemsize), strides=strides)


def marked_elements(view: TensorSpec, cells: Bools) -> Bools:
    """Return, for each element of a view, whether any of its bytes is marked."""
    return np.asarray(by_element(view, cells).any(axis=-1), np.bool_)


@dataclass(frozen=True)
class Missing:
    """The unwritten elements of a tensor.

    Attributes:
        count: Number of unwritten elements.
        total: Number of all elements of the tensor.
        ranges: First and last element of each contiguous range, in ascending order.
        indices: Indices of the first unwritten elements.
        at_end: True if exactly the last elements are unwritten.
    """

    count: int
    total: int
    ranges: Sequence[tuple[int, int]]
    indices: Sequence[tuple[int, ...]]
    at_end: bool

    @classmethod
    def of(cls, marks: Bools) -> Missing:
        """Return the elements that are marked in an array of the tensor's shape."""
        flat = np.flatnonzero(marks.reshape(-1))
        breaks = np.flatnonzero(np.diff(flat) > 1) + 1
        starts = flat[np.concatenate([[0], breaks])] if len(flat) else flat
        ends = flat[np.concatenate([breaks - 1, [len(flat) - 1]])] if len(flat) else flat
        firsts = [tuple(int(n) for n in np.unravel_index(k, marks.shape)) for k in flat[:_SHOWN]]
        return cls(
            count=len(flat),
            total=marks.size,
            ranges=[(int(a), int(b)) for a, b in zip(starts, ends, strict=True)],
            indices=firsts if marks.ndim else [],
            at_end=len(starts) == 1 and int(ends[0]) == marks.size - 1,
        )

    @property
    def period(self) -> tuple[int, int] | None:
        """The distance and the length of the ranges; None if they are few or irregular.

        The end of the tensor may cut off the last range.
        """
        if len(self.ranges) <= _SHOWN:
            return None
        ends = np.array(self.ranges)
        starts, lengths = ends[:, 0], ends[:, 1] - ends[:, 0] + 1
        distances = np.diff(starts)
        is_cut = lengths[-1] < lengths[0] and ends[-1, 1] == self.total - 1
        whole = lengths[:-1] if is_cut else lengths
        if (distances != distances[0]).any() or (whole != lengths[0]).any():
            return None
        return int(distances[0]), int(lengths[0])

    @property
    def written_step(self) -> int | None:
        """The step n if only every nth element is written, else None."""
        if self.period is None:
            return None
        distance, length = self.period
        return distance if distance - length == 1 else None

    def sentences(self) -> tuple[str, ...]:
        """Describe the elements by position and, if there are several dimensions, also by index."""
        named = [_range(first, last) for first, last in self.ranges[:_SHOWN]]
        # Formatted numbers may contain commas. If any does, ranges are separated by semicolons.
        separator = "; " if any("," in text for text in named) else ", "
        left, pattern = len(self.ranges) - len(named), self._pattern()
        more = f" and {left:,} more ranges" if left > 1 else " and one more range" if left else ""
        if pattern:
            named.append("…")
            more = ""
        text = f"{separator.join(named)}{more} of {self.total:,}{pattern}"
        text = f"{'element' if self.count == 1 else 'elements'} {text}"
        if not self.indices or len(self.indices[0]) < 2:
            return (text,)
        rest = ", …" if self.count > len(self.indices) else ""
        shown = ", ".join(str(list(index)) for index in self.indices)
        return text, f"the first by index: {shown}{rest}"

    def _pattern(self) -> str:
        """Return, e.g., `: the last 2 of every 8 elements`; empty for irregular elements."""
        if self.period is None:
            return ""
        distance, length = self.period
        if length == 1:
            return f": every {ordinal(distance)} element"
        first, last = self.ranges[0]
        which = {0: "the first ", distance - 1: "the last "}
        return f": {which.get(first and last, '')}{length:,} of every {distance:,} elements"


def ordinal(number: int) -> str:
    """Return `2nd` for 2, `11th` for 11."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{'th' if number % 100 in (11, 12, 13) else ending}"


def _range(first: int, last: int) -> str:
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"
