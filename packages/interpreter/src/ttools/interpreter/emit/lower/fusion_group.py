"""Emission of fusion groups: one loop over blocks of chunks, which computes all tiles of the group.

The chunks that one step computes stay in registers for the next step, which reads them, or chunks
beside them in the block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from ttools.interpreter.emit.function import FUSION_GROUP, Emitter, root
from ttools.interpreter.llvm.builder import Builder
from ttools.interpreter.llvm.value import SSAValue
from ttools.interpreter.tiles.chunk import ANY_DIVISOR, ZERO, Axis, Coords
from ttools.interpreter.tiles.loops import Loop, Traversal
from ttools.ir import Operation, shape_of


@root(FUSION_GROUP)
def lower_fusion_group(e: Emitter, last: Operation) -> None:
    """Compute all members of the group that ends here, and store those with a slot."""
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
    """Split a loop's index into coordinates.

    Returns:
        The base of each axis that moves, and the row-major index of all of them.
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
    """Yield the coordinates of a block's chunks; record the index at which each begins."""
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
