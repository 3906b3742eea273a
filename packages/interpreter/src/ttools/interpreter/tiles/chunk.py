"""Chunks: the part of a tile one vector instruction works on, and where in the tile it lies.

A tile is never an LLVM value as a whole.  Loops walk it chunk by chunk; `Coords` says which
elements a chunk holds, as one scalar base plus compile-time lane offsets per axis, and a chunk's
value is either an `Affine` form (scalar base plus constant lane offsets, how contiguity is found)
or a plain `Vector`.  Tile extents are powers of two, so a base and its lane offsets never share
bits: reshapes are shifts and masks applied to both parts alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from ttools.interpreter.llvm.value import SSAValue, integer, lanes_of
from ttools.ir import Type
from ttools.ir.dialects.coordinates import Lanes

#: Where a tile, and a loop over it, begins.
ZERO = integer(0, "i32")
#: The divisor of zero: anything divides it.
ANY_DIVISOR = 1 << 62


@dataclass(frozen=True, slots=True)
class Axis:
    """Coordinates along one axis: `base + lanes[l]` for lane l; `base` is an i32 SSA or literal.

    `divisor` is a power of two known to divide `base`, and greater than every lane offset.
    """

    base: SSAValue
    lanes: tuple[int, ...]
    divisor: int
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Coordinates are keys of what has been computed: each is looked up many times.
        object.__setattr__(self, "_hash", hash((self.base, self.lanes, self.divisor)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def width(self) -> int:
        return len(self.lanes)


Coords: TypeAlias = tuple[Axis, ...]


def origin(rank: int, width: int = 1) -> Coords:
    """The first element of a tile, in every lane."""
    return (Axis(ZERO, (0,) * width, ANY_DIVISOR),) * rank


def moved(lanes: Lanes, at: Coords) -> Coords:
    """Return the coordinates in the operand of a view of what it shows at some coordinates."""
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
    """A chunk whose lane l is `base + lanes[l]`; all-zero lanes make it uniform, of any type.

    For pointers the lane offsets are bytes.  When `guard` (an i1 SSA) is given, the form holds
    only if it is true at run time; `exact` then emits the vector that is always right.
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
    """A chunk with the same scalar in every lane."""
    return Affine(element, base, (0,) * width, divisor)
