"""Chunks: the part of a tile that one vector instruction processes, and its place in the tile.

A whole tile is never one LLVM value. Loops walk it chunk by chunk. `Coords` describes which
elements a chunk holds: per axis, a scalar base plus lane offsets that are known at compile time.
The value of a chunk is either `Affine`, a scalar base plus constant lane offsets, by which
contiguous accesses are recognised, or a plain `Vector`. Extents of tiles are powers of two, so a
base and its lane offsets never share bits, and reshapes apply the same shifts and masks to both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from ttools.interpreter.llvm.value import SSAValue, integer, lanes_of
from ttools.ir import Type
from ttools.ir.dialects.coordinates import Lanes

#: The first coordinate of an axis, and the start of a loop over it.
ZERO = integer(0, "i32")
#: The divisor of zero: anything divides it.
ANY_DIVISOR = 1 << 62


@dataclass(frozen=True, slots=True)
class Axis:
    """Coordinates along one axis: `base + lanes[l]` for lane l.

    Attributes:
        base: An SSA value of type i32, or a literal.
        lanes: The offset of each lane.
        divisor: A power of two that divides `base` and exceeds every lane offset.
    """

    base: SSAValue
    lanes: tuple[int, ...]
    divisor: int
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Coordinates are dictionary keys that are looked up often.
        object.__setattr__(self, "_hash", hash((self.base, self.lanes, self.divisor)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def width(self) -> int:
        return len(self.lanes)


Coords: TypeAlias = tuple[Axis, ...]


def origin(rank: int, width: int = 1) -> Coords:
    """Return the coordinates of the first element of a tile, in every lane."""
    return (Axis(ZERO, (0,) * width, ANY_DIVISOR),) * rank


def moved(lanes: Lanes, at: Coords) -> Coords:
    """Return the coordinates in a view's operand that correspond to coordinates in the view."""
    assert lanes.axes is not None
    width = at[0].width if at else 1
    return tuple(
        at[axis] if axis is not None else Axis(ZERO, (lanes.fixed[n],) * width, ANY_DIVISOR)
        for n, axis in enumerate(lanes.axes)
    )


@dataclass(slots=True, eq=False)
class Vector:
    """A chunk held as an LLVM vector (a scalar when width is 1)."""

    element: Type
    ssa: SSAValue

    @property
    def width(self) -> int:
        return lanes_of(self.ssa.type)


@dataclass(slots=True, eq=False)
class Affine:
    """A chunk whose lane l is `base + lanes[l]`; if all offsets are 0 it is uniform, of any type.

    The lane offsets of pointers are bytes. If there is a `guard` (an i1), the form is only valid
    where the guard is true at run time; `exact` then emits the vector that is always right.
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
    """Return a chunk with the same scalar in every lane."""
    return Affine(element, base, (0,) * width, divisor)
