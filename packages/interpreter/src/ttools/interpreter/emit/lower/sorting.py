"""Emission of sorting networks: swaps of neighbours, and fusion groups of successive steps.

Swaps of neighbours along an axis of extent 2, which `analysis/lane_swap.py` recognises, are emitted
as shuffles, or as reads at the other coordinate of the axis. A fusion group
(`schedule/fusion_groups.py`) is emitted as one loop over blocks of chunks, which computes all tiles
of the group. The chunks that one step computes stay in registers. The next step reads these chunks,
or other chunks of the same block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import prod

from ttools.interpreter.emit.function import FUSION_GROUP, LANE_SWAP, Emitter, fused, root
from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.value import SSAValue
from ttools.interpreter.tiles.chunk import ANY_DIVISOR, ZERO, Axis, Chunk, Coords, Vector
from ttools.interpreter.tiles.loops import Loop, Traversal
from ttools.ir import Operation, shape_of


@root(FUSION_GROUP)
def lower_fusion_group(e: Emitter, last: Operation) -> None:
    """Compute all members of the fusion group that ends with `last`; store those with a slot."""
    group = e.plan.fusion_groups[last]
    walk = e.traversal(shape_of(group.members[0].type))
    moving = [
        k
        for k, extent in enumerate(walk.shape)
        if k not in group.axes and extent > walk.lanes_along[k]
    ]
    steps = [walk.shape[k] // walk.lanes_along[k] for k in moving]
    e.evaluation += 1
    begin = len(e.b.lines)
    loop = Loop(e.b, prod(steps), 1) if moving else None
    bases, linear = ({}, ZERO) if loop is None else _places(e.b, loop.index, walk, moving, steps)
    with e.fresh_memo():
        block = list(_chunks(e.b, walk, group.axes, bases, linear))
        for member in group.members:
            for at in block:
                chunk = e.remember(member, at)
                if e.plan.is_stored(member):
                    e.write_slot(e.slot(member), at, chunk)
    if loop is not None:
        loop.close()
    e.b.straight_lines += len(e.b.lines) - begin


def _places(
    b: Builder, index: SSAValue, walk: Traversal, moving: Sequence[int], steps: Sequence[int]
) -> tuple[dict[int, SSAValue], SSAValue]:
    """Split the index of a loop over blocks into coordinates.

    Args:
        walk: The traversal of the tile.
        moving: The axes along which the loop moves.
        steps: The number of steps along each axis of `moving`, a power of two.

    Returns:
        The base along each axis of `moving`, and the row-major index of the block's first element.
    """
    bases: dict[int, SSAValue] = {}
    linear: list[SSAValue] = []
    shift = 0
    for k, count in reversed(list(zip(moving, steps, strict=True))):
        digit = b.binary("lshr", index, shift)
        digit = b.binary("and", digit, count - 1)
        shift += count.bit_length() - 1
        lanes = walk.lanes_along[k]
        bases[k] = digit if lanes == 1 else b.binary("mul nuw nsw", digit, lanes)
        stride = prod(walk.shape[k + 1 :])
        linear.append(b.binary("mul nuw nsw", bases[k], stride))
    whole = linear[0]
    for part in linear[1:]:
        whole = b.binary("or disjoint", whole, part)
    return bases, whole


def _chunks(
    b: Builder, walk: Traversal, axes: frozenset[int], bases: dict[int, SSAValue], linear: SSAValue
) -> Iterator[Coords]:
    """Yield the coordinates of the chunks of a block, and record the index at which each begins.

    Args:
        walk: The traversal of the tile.
        axes: The axes of extent 2 that a block spans.
        bases: The base along each axis along which the loop moves.
        linear: The row-major index of the block's first element.
    """
    block_axes = sorted(axes)
    common = [walk.axis(k, bases.get(k, ZERO)) for k in range(len(walk.shape))]
    for digits in product(range(2), repeat=len(block_axes)):
        at, offset = list(common), 0
        for k, digit in zip(block_axes, digits, strict=True):
            at[k] = Axis(ZERO, (digit,) * walk.width, ANY_DIVISOR)
            offset += digit * prod(walk.shape[k + 1 :])
        if linear != "0":
            b.linear[walk.shape, tuple(at)] = (linear, offset)
        yield tuple(at)


@fused(LANE_SWAP)
def lower_lane_swap(e: Emitter, op: Operation, result: int, at: Coords) -> Chunk:
    """Return the neighbours of a chunk along an axis of extent 2.

    If the neighbours are in the same chunk, the result is a shuffle of it. The chunk is usually in
    registers already, because the code that swaps elements also compares them.
    """
    source, axis = e.plan.lane_swaps[op]
    # A coordinate along an axis of extent 2 has one bit, which is in the base or in the lanes. If
    # the lanes differ, the base is zero.
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
        axis: The coordinates of a chunk along this axis.
        flipped: The base of the other coordinate if the base is an SSA value, else None.
    """
    if flipped is not None:
        return Axis(flipped, axis.lanes, 1)
    base = int(axis.base) if axis.base.isdigit() else 0
    return Axis(ZERO, tuple(1 - base - lane for lane in axis.lanes), ANY_DIVISOR)
