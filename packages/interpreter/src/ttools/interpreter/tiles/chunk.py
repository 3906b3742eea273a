"""Chunks: the part of a tile that one vector instruction processes, and its place in the tile.

A whole tile is never one LLVM value. Loops process it chunk by chunk. `Coords` describes the
elements of a chunk: for each axis, a scalar base plus a constant offset for each lane. The value of
a chunk is either `Affine`, which is also a scalar base plus constant lane offsets, or a plain
`Vector`. The affine form shows, for example, that the addresses of a load are adjacent. Extents of
tiles are powers of two, so a base and its lane offsets have no bits in common, and a reshape can
apply the same shifts and masks to both.

For example, the chunks of `tl.arange(0, 64) * 4` with 16 lanes have the coordinates
`(%i + [0, 1, …, 15],)`, where `%i` is the counter of a loop with the step 16, and the value
`%i * 4 + [0, 4, …, 60]`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from ttools.interpreter.llvm.value import SSAValue, integer, lanes_of
from ttools.ir import Type
from ttools.ir.dialects.coordinates import Lanes

#: The first coordinate of an axis, and the start of a loop over it.
ZERO = integer(0, "i32")
#: The divisor of zero, which every power of two divides.
ANY_DIVISOR = 1 << 62


class Axis:
    """Coordinates along one axis: `base + lanes[l]` for lane l.

    Attributes:
        base: An SSA value of type i32, or a literal.
        lanes: The offset of each lane.
        divisor: A power of two that divides `base` and exceeds every lane offset.
    """

    __slots__ = ("_hash", "base", "divisor", "lanes")

    def __init__(self, base: SSAValue, lanes: tuple[int, ...], divisor: int) -> None:
        self.base, self.lanes, self.divisor = base, lanes, divisor
        # Cache the hash, because coordinates are dictionary keys that are looked up often.
        self._hash = hash((base, lanes, divisor))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Axis)
            and self.base == other.base
            and self.lanes == other.lanes
            and self.divisor == other.divisor
        )

    @property
    def width(self) -> int:
        return len(self.lanes)


Coords: TypeAlias = tuple[Axis, ...]


def origin(rank: int, width: int = 1) -> Coords:
    """Return the coordinates of the first element of a tile, for all lanes of a chunk."""
    return (Axis(ZERO, (0,) * width, ANY_DIVISOR),) * rank


def moved(lanes: Lanes, at: Coords) -> Coords:
    """Return the coordinates in a view's operand that correspond to coordinates in the view.

    Args:
        lanes: The map from lanes of the view to lanes of the operand.
        at: The coordinates in the view.
    """
    assert lanes.axes is not None
    width = at[0].width if at else 1
    return tuple(
        at[axis] if axis is not None else Axis(ZERO, (lanes.fixed[n],) * width, ANY_DIVISOR)
        for n, axis in enumerate(lanes.axes)
    )


@dataclass(slots=True, eq=False)
class Vector:
    """A chunk whose value is an LLVM vector, or a scalar if the chunk has one lane."""

    element: Type
    ssa: SSAValue

    @property
    def width(self) -> int:
        return lanes_of(self.ssa.type)


@dataclass(slots=True, eq=False)
class Affine:
    """A chunk whose lane l is `base + lanes[l]`.

    If all offsets are 0, the chunk is uniform, and its elements may have any type.

    Attributes:
        element: The type of an element.
        base: A scalar, as an SSA value or literal.
        lanes: The offset of each lane; in bytes, for pointers.
        divisor: A power of two that divides the base.
        guard: An i1 that is set at run time if the affine form is valid; None if it is always
            valid.
        exact: Emits the vector that is correct even if the guard is not set; None without a guard.
        ssa: The chunk as a vector, once that vector has been emitted.
    """

    element: Type
    base: SSAValue
    lanes: tuple[int, ...]
    divisor: int = 1
    guard: SSAValue | None = None
    exact: Callable[[], SSAValue] | None = None
    ssa: SSAValue | None = None

    @property
    def width(self) -> int:
        return len(self.lanes)

    @property
    def is_uniform(self) -> bool:
        return self.guard is None and not any(self.lanes)


Chunk: TypeAlias = Vector | Affine


def uniform(element: Type, base: SSAValue, width: int, divisor: int = 1) -> Affine:
    """Return a chunk that has the same scalar in all lanes."""
    return Affine(element, base, (0,) * width, divisor)
