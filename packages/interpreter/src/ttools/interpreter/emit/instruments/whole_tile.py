"""Tests addresses against the bounds of memory: those of a whole tile, or where a run begins.

Must not know what is accessed, nor what happens where a test fails.
"""

from __future__ import annotations

from dataclasses import dataclass

from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.emit.instruments.tile_hull import Hull, tile_hull
from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.value import SSAValue, integer, lanes_of
from ttools.ir import Value


@dataclass(frozen=True)
class WholeTile:
    """What is known of all lanes of an access.

    Attributes:
        inside: an i1: all active lanes are inside their memory.
        exact: where they are not, some active lane is outside, or the tile may wrap: there are few
            such tiles, whose chunks need no quick look.
        hull: of the active lanes.
        logged: a tile that is inside has left its footprint already.
    """

    inside: SSAValue
    exact: bool
    hull: Hull
    logged: bool = False


def whole_tile(
    e: Emitter, pointer: Value, mask: Value | None, size: int, bounds: tuple[SSAValue, SSAValue]
) -> WholeTile | None:
    """Emits the test of a tile of pointers where the builder stands; None if there can be none.

    Args:
        size: bytes of an element.
        bounds: address and bytes of what may be accessed.
    """
    b, hull = e.b, tile_hull(e, pointer, mask)
    if hull is None:
        return None
    low, bytes_ = bounds
    shift = size.bit_length() - 1
    room = b.binary("lshr", bytes_, shift) if shift else bytes_
    last = b.binary("lshr", hull.span, shift) if shift else hull.span
    room = b.overloaded("usub.sat", room, last)
    inside = begins_inside(b, hull.start, low, room, size)
    if hull.idle is not None:
        inside = b.binary("or", inside, hull.idle)
    if hull.guard is not None:
        inside = b.binary("and", inside, hull.guard)
    return WholeTile(inside, hull.exact, hull)


def begins_inside(
    b: Builder, start: SSAValue, low: SSAValue, room: SSAValue, size: int
) -> SSAValue:
    """Whether addresses are not below `low`, aligned, and fewer elements from there than `room`.

    Args:
        start: i64 lanes.
        size: bytes of an element.
    """
    width, shift = lanes_of(start.type), size.bit_length() - 1
    index = b.binary("sub", start, b.splat(low, width))
    if shift:
        # Rotation moves the low bits of a misaligned offset to the top, out of any bounds.
        by = b.splat(integer(64 - shift, "i64"), width)
        index = b.overloaded("fshl", index, index, by)
    return b.compare("icmp ult", index, b.splat(room, width))
