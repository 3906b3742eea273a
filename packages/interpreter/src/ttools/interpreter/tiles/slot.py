"""Slots: the places of tiles in memory, and the lanes of a chunk within them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from ttools.interpreter.llvm.builder import SIZES, Builder, memory_type
from ttools.interpreter.llvm.value import SSAValue
from ttools.interpreter.tiles.chunk import Coords
from ttools.interpreter.tiles.representation import (
    from_memory,
    narrow,
    to_memory,
    widen,
    widened_type,
)
from ttools.ir import Type


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a tile in memory: row-major, from `base + offset` bytes.

    Attributes:
        base: The arena, or the global of a constant.
        widened: If True, narrow floats are held as f32 and narrow integers as wider ones, ready for
            a dot.
    """

    base: SSAValue
    offset: int
    shape: tuple[int, ...]
    element: Type
    widened: bool = False

    @property
    def stored_type(self) -> str:
        if self.widened:
            return widened_type(self.element)
        return memory_type(self.element)

    @property
    def stored_bytes(self) -> int:
        return SIZES[self.stored_type]

    @property
    def strides(self) -> tuple[int, ...]:
        """Return the number of elements between neighbours along each axis."""
        return row_major(self.shape)

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.stored_bytes

    def to_stored(self, b: Builder, value: SSAValue) -> SSAValue:
        return (widen if self.widened else to_memory)(b, value, self.element)

    def from_stored(self, b: Builder, raw: SSAValue) -> SSAValue:
        return (narrow if self.widened else from_memory)(b, raw, self.element)

    def lane_offsets(self, at: Coords) -> tuple[int, ...]:
        """Return the element offset of each lane from lane 0."""
        return _offsets(self.shape, at)


@lru_cache(maxsize=1024)
def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the number of elements between neighbours along each axis of a tile."""
    return tuple(prod(shape[k + 1 :]) for k in range(len(shape)))


@lru_cache(maxsize=1024)
def _offsets(shape: tuple[int, ...], at: Coords) -> tuple[int, ...]:
    if not at:
        return (0,)
    strides = row_major(shape)
    sums = [
        sum(axis.lanes[lane] * stride for axis, stride in zip(at, strides, strict=True))
        for lane in range(at[0].width)
    ]
    return tuple(s - sums[0] for s in sums)
