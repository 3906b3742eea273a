"""Emission of swapped neighbours along an axis of extent 2: shuffles, or reads of the other one.

`analysis.lane_swap` recognises the swaps.
"""

from __future__ import annotations

from functools import lru_cache

from ttools.interpreter.emit.function import LANE_SWAP, Emitter, fused
from ttools.interpreter.llvm.value import SSAValue
from ttools.interpreter.tiles.chunk import ANY_DIVISOR, ZERO, Axis, Chunk, Coords, Vector
from ttools.ir import Operation


@fused(LANE_SWAP)
def lower_lane_swap(e: Emitter, op: Operation, result: int, at: Coords) -> Chunk:
    """Return the neighbours of a chunk along an axis of extent 2.

    Neighbours in the same chunk are a shuffle of it. The chunk is mostly in registers already,
    because the code that swaps elements also compares them.
    """
    source, axis = e.plan.lane_swaps[op]
    # The only bit belongs to the base or to the lanes: where lanes differ, the base is zero.
    moving = at[axis].base.startswith("%") and not any(at[axis].lanes)
    if not moving:
        partners = _partners(tuple(a.lanes for a in at), axis)
        own = e.evaluate(source, at) if partners is not None else None
        if isinstance(own, Vector) and partners is not None:
            return Vector(own.element, e.b.shuffle(own.ssa, partners))
    flipped = e.b.binary("xor", at[axis].base, 1) if moving else None
    return e.evaluate(source, (*at[:axis], opposite(at[axis], flipped), *at[axis + 1 :]))


@lru_cache(maxsize=256)
def _partners(lanes: tuple[tuple[int, ...], ...], axis: int) -> tuple[int, ...] | None:
    """Return the lane of each lane's neighbour along `axis`; None if some are in another chunk.

    Args:
        lanes: The lane offsets of each axis of a chunk.
        axis: An axis of extent 2 that no loop moves.
    """
    elements = list(zip(*lanes, strict=True))
    where = {element: lane for lane, element in enumerate(elements)}
    partners = [where.get((*x[:axis], 1 - x[axis], *x[axis + 1 :])) for x in elements]
    inside = tuple(lane for lane in partners if lane is not None)
    return inside if len(inside) == len(partners) else None


def opposite(axis: Axis, flipped: SSAValue | None) -> Axis:
    """Return the other coordinate along an axis of extent 2.

    Args:
        axis: The axis, along which lanes differ or have one base.
        flipped: The other base, if the base moves.
    """
    if flipped is not None:
        return Axis(flipped, axis.lanes, 1)
    base = int(axis.base) if axis.base.isdigit() else 0
    return Axis(ZERO, tuple(1 - base - lane for lane in axis.lanes), ANY_DIVISOR)
