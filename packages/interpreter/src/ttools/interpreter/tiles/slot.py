"""Slots: the places of tiles in memory, and the offsets of a chunk's lanes within them."""

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
    """The place of a tile in memory, in row-major order.

    Attributes:
        base: The address of the arena, or of the global of a constant.
        offset: The offset of the tile from this address, in bytes.
        shape: The shape of the tile.
        element: The type of an element.
        widened: If True, elements are stored in the widened representation, which matrix products
            use; otherwise in memory representation.
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
        """Return the offset of each lane from lane 0, in elements."""
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
