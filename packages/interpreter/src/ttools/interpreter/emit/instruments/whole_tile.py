"""Tests of addresses against the bounds of memory, for a whole tile or the start of a run."""

from __future__ import annotations

from dataclasses import dataclass

from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.emit.instruments.tile_hull import Hull, tile_hull
from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.value import SSAValue, integer, lanes_of
from ttools.ir import Value


@dataclass(frozen=True)
class WholeTile:
    """The test of all lanes of an access.

    Attributes:
        inside: An i1 that is set if all active lanes are in bounds.
        exact: True if `inside` is unset only for tiles with an active lane out of bounds, or that
            may wrap. Such tiles are rare, and their chunks are not tested again.
        hull: The hull of the active lanes.
        logged: True if a tile in bounds has left its footprint already.
    """

    inside: SSAValue
    exact: bool
    hull: Hull
    logged: bool = False


def whole_tile(
    e: Emitter, pointer: Value, mask: Value | None, size: int, bounds: tuple[SSAValue, SSAValue]
) -> WholeTile | None:
    """Emit the test of a tile of pointers; None if its hull is unknown.

    Args:
        mask: The active lanes; all if None.
        size: Bytes of an element.
        bounds: Address and size of the memory that may be accessed.
    """
    b, hull = e.b, tile_hull(e, pointer, mask)
    if hull is None:
        return None
    low, bytes_ = bounds
    shift = size.bit_length() - 1
    capacity = b.binary("lshr", bytes_, shift) if shift else bytes_
    last = b.binary("lshr", hull.span, shift) if shift else hull.span
    capacity = b.overloaded("usub.sat", capacity, last)
    inside = begins_inside(b, hull.start, low, capacity, size)
    if hull.idle is not None:
        inside = b.binary("or", inside, hull.idle)
    if hull.guard is not None:
        inside = b.binary("and", inside, hull.guard)
    return WholeTile(inside, hull.exact, hull)


def begins_inside(
    b: Builder, start: SSAValue, low: SSAValue, capacity: SSAValue, size: int
) -> SSAValue:
    """Return whether addresses are aligned and less than `capacity` elements above `low`.

    Args:
        start: The addresses, as i64 lanes.
        low: The lowest address, an i64.
        capacity: A number of elements, an i64.
        size: Bytes of an element.
    """
    width, shift = lanes_of(start.type), size.bit_length() - 1
    index = b.binary("sub", start, b.splat(low, width))
    if shift:
        # Rotation moves the low bits of a misaligned offset to the top, which exceeds all bounds.
        by = b.splat(integer(64 - shift, "i64"), width)
        index = b.overloaded("fshl", index, index, by)
    return b.compare("icmp ult", index, b.splat(capacity, width))
