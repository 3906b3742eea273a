"""Which elements of a tensor were never written, and how they are named.

The geometry of views over a storage's bytes, and the sentences on what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

Bools = NDArray[np.bool_]

#: So many ranges, and so many indices, are named.
_SHOWN = 3


@dataclass(frozen=True)
class View:
    """The elements of a tensor in its storage, in bytes from the storage's first."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    item: int

    @classmethod
    def of(cls, tensor: Any) -> View:
        """The view of a tensor with ordinary memory."""
        item = int(tensor.element_size())
        return cls(
            offset=int(tensor.storage_offset()) * item,
            shape=tuple(int(n) for n in tensor.shape),
            strides=tuple(int(n) * item for n in tensor.stride()),
            item=item,
        )

    @cached_property
    def end(self) -> int:
        """The byte behind the last one."""
        spans = (s * (n - 1) for s, n in zip(self.strides, self.shape, strict=True))
        return self.offset + sum(spans) + self.item

    def elements(self, cells: NDArray[Any]) -> NDArray[Any]:
        """The cells of a storage, one for each byte, as elements of so many bytes."""
        shape, strides = (*self.shape, self.item), (*self.strides, 1)
        return as_strided(cells[self.offset :], shape=shape, strides=strides)

    def marked(self, cells: Bools) -> Bools:
        """Per element, whether any of its bytes is marked."""
        return np.asarray(self.elements(cells).any(axis=-1), np.bool_)


@dataclass(frozen=True)
class Missing:
    """The elements of an argument that are missing.

    Attributes:
        ranges: of them, in the order of the elements: first and last.
        indices: of the first ones.
        at_end: whether they are the last elements and no others.
    """

    count: int
    total: int
    ranges: Sequence[tuple[int, int]]
    indices: Sequence[tuple[int, ...]]
    at_end: bool

    @classmethod
    def of(cls, marks: Bools) -> Missing:
        """What is marked in an argument's shape."""
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

    def sentences(self) -> tuple[str, ...]:
        """Which they are: in the order of the elements, and by index where there are several."""
        named = [_range(first, last) for first, last in self.ranges[:_SHOWN]]
        left = len(self.ranges) - len(named)
        more = f" and {left:,} more ranges" if left > 1 else " and one more range" if left else ""
        one = self.count == 1 and not more
        text = f"{'element' if one else 'elements'} {', '.join(named)}{more} of {self.total:,}"
        if not self.indices or len(self.indices[0]) < 2:
            return (text,)
        rest = ", …" if self.count > len(self.indices) else ""
        shown = ", ".join(str(list(index)) for index in self.indices)
        return text, f"the first by index: {shown}{rest}"


def _range(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first} to {last}"
