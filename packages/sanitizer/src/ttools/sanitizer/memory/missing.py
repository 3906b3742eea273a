"""Which elements of a tensor were never written, and how they are named.

Owns the geometry of views over a storage's bytes, and the sentences on what is missing. Must not
know who reads or writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ttools.sanitizer.memory.pattern import PATTERN, Grain, grain_of, holds_run

if TYPE_CHECKING:
    from ttools.sanitizer.memory.pattern import Bytes

Bools = NDArray[np.bool_]

#: So many ranges, and so many indices, are named.
_SHOWN = 3
#: Smaller elements hold the pattern by chance: they count in runs of so many bytes.
_RUN = 4


@dataclass(frozen=True)
class View:
    """The elements of a tensor in its storage, in bytes from the storage's first."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    item: int
    grain: Grain = Grain.WORD

    @classmethod
    def of(cls, tensor: Any) -> View:
        """The view of a tensor with ordinary memory."""
        item = int(tensor.element_size())
        return cls(
            offset=int(tensor.storage_offset()) * item,
            shape=tuple(int(n) for n in tensor.shape),
            strides=tuple(int(n) * item for n in tensor.stride()),
            item=item,
            grain=grain_of(tensor),
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


def may_be_missing(memory: Bytes, pattern: bytes = PATTERN, grain: Grain = Grain.WORD) -> bool:
    """Whether any four bytes of a storage, or its last ones, hold the pattern, or fewer tell.

    Args:
        memory: from an even byte of the storage on.
        pattern: that marks what is unwritten.
        grain: how much of it tells.
    """
    if holds_run(memory, pattern) or _tail_is_missing(memory, pattern):
        return True
    if grain is Grain.WORD:
        return False
    return bool(grain.among(memory, pattern, np.zeros(len(memory), np.bool_)).any())


def _tail_is_missing(memory: Bytes, pattern: bytes) -> bool:
    """Whether the last element of two bytes holds the pattern."""
    return len(memory) % 2 == 0 and bytes(memory[-2:]) == pattern[:2]


def missing_bytes(
    memory: Bytes, item: int, pattern: bytes = PATTERN, grain: Grain = Grain.WORD
) -> Bools:
    """Which bytes of a storage that was handed out uninitialised hold its pattern still.

    Args:
        memory: all of it.
        item: bytes of its elements.
        grain: theirs.
    """
    found = np.zeros(len(memory), np.bool_)
    whole = len(memory) // 2 * 2
    # The pattern is two bytes over and over.
    equal = memory[:whole].view(np.uint16) == np.frombuffer(pattern, np.uint16)[0]
    size = min(max(item, 2), 8) // 2
    equal = equal[: len(equal) // size * size].reshape(-1, size).all(axis=1)
    found[: equal.size * size * 2] = np.repeat(equal, size * 2)
    if whole and whole < len(memory):
        found[-1] = found[-2] and memory[-1] == pattern[0]
    if item >= _RUN:
        return found
    runs = _long_runs(found, 2)
    return runs | grain.among(memory, pattern, runs)


def _long_runs(found: Bools, least_at_end: int) -> Bools:
    """Marks in runs of several bytes only; in the last run, of those at least."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], found.view(np.int8), [0]])))
    starts, ends = edges[::2], edges[1::2]
    lengths = ends - starts
    long = lengths >= np.where(ends == len(found), least_at_end, _RUN)
    kept = found.copy()
    kept[found] = np.repeat(long, lengths)
    return np.asarray(kept, np.bool_)


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
