"""Fusion groups: tiles that are computed together, one block of registers at a time.

Each step of a sorting network compares a tile with a copy of itself in which neighbours along an
axis of extent 2 are swapped. Without groups, each step would be a loop over the whole tile, which
reads and writes memory. If the axes of successive steps are all within a block of a few chunks, the
steps need no elements from outside the block. Such a sequence becomes one loop over blocks, and the
tiles between the steps are never stored.

For example, `tl.sort` views 64 elements as a tile with six axes of extent 2. With 16 lanes, a chunk
spans the last four axes, so swaps along these are shuffles in a register. A block of four chunks
also spans the other two axes, so all steps of this sort form a single group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeAlias

import ttools.interpreter.elementwise as elementwise
from ttools.interpreter.analysis.strides import tile_order
from ttools.interpreter.llvm.builder import SIZES, register_type
from ttools.interpreter.schedule.plan import FusionGroup, Plan
from ttools.interpreter.tiles.loops import traversal
from ttools.ir import Block, Operation, Value, element_type, shape_of
from ttools.ir.dataflow import reachable
from ttools.ir.dialects.traits import FROM_COORDINATES, LOADS, VIEW
from ttools.ir.domains.strides import StrideAnalysis

#: A tile, and True if it is read at the same coordinates as the tile that is computed.
_Step: TypeAlias = "tuple[Value, bool]"
#: The number of chunks in a block, for 32-bit elements. Larger blocks cost more compilation time
#: than they save.
_CHUNKS = 4
#: The largest number of tiles in a group. LLVM's time for a basic block grows with the square of
#: its length.
_MOST_MEMBERS = 128


@dataclass
class _Reach:
    """The stored tiles from which a tile is computed.

    Attributes:
        aligned: Tiles that are read at the same coordinates or at those of swapped neighbours.
        others: Tiles that are read at other coordinates.
        axes: Axes along which neighbours are swapped.
    """

    aligned: set[Value] = field(default_factory=set)
    others: set[Value] = field(default_factory=set)
    axes: set[int] = field(default_factory=set)


def plan_fusion_groups(
    plan: Plan, ops: Sequence[Operation], candidates: set[Value], lanes: int
) -> None:
    """Add fusion groups to a plan; members that only other members read lose their slots.

    Args:
        plan: The plan, which is complete except for fusion groups.
        ops: The operations of the function, in order.
        candidates: Tiles that are stored only because that is faster than recomputing them.
        lanes: The number of lanes of a chunk.
    """
    shared = {*plan.shares, *plan.shares.values()}
    strides = StrideAnalysis()
    free = {v for v in candidates - shared if tile_order(v, plan.is_stored, strides) is None}
    groups = find_fusion_groups(ops, free, plan, lanes)
    for group, kept in [(group, escaping(group, plan)) for group in groups]:
        defining = [v.defining_op for v in group.members if v.defining_op is not None]
        plan.fusion_groups[defining[-1]] = group
        plan.skipped.update(defining[:-1])
        for member in group.members:
            if member not in kept:
                del plan.stored[member]


def find_fusion_groups(
    ops: Sequence[Operation], candidates: set[Value], plan: Plan, lanes: int
) -> list[FusionGroup]:
    """Return groups of two or more candidates; each group is computed where its last is defined."""
    groups: list[FusionGroup] = []
    current: FusionGroup | None = None
    block: Block | None = None

    def close() -> None:
        nonlocal current
        if current is not None and len(current.members) > 1:
            groups.append(current)
        current = None

    for op in ops:
        if op.parent is not block:
            close()
            block = op.parent
        if op in plan.skipped:
            continue
        value = op.results[0] if op.results else None
        if value in candidates and value is not None and _is_plain(op):
            reach = _reach(value, plan)
            if current is None or not _join(current, value, reach, lanes):
                close()
                current = FusionGroup([value], frozenset())
                if not _join(current, None, reach, lanes):
                    current = None
        elif current is not None and not _may_wait(op, plan):
            close()
    close()
    return groups


def _is_plain(op: Operation) -> bool:
    """Return whether an operation computes a single tile, element by element."""
    return (
        len(op.results) == 1
        and elementwise.is_elementwise(op.name)
        and elementwise.is_lanewise(op)
        and not elementwise.has_effects(op)
    )


def _may_wait(op: Operation, plan: Plan) -> bool:
    """Return whether tiles that are defined before `op` may be computed after it."""
    if not op.results or op.regions or any(plan.is_stored(v) for v in op.results):
        return False
    if any(v.is_tensor for v in op.operands) and not op.results[0].is_tensor:
        return False  # the operation reads a tile at its place in order to compute a scalar
    if LOADS in op.traits:  # this load is not stored, so the launch never writes the memory
        return op.results[0].is_tensor
    return op.has(VIEW, FROM_COORDINATES) or (
        elementwise.is_elementwise(op.name) and not elementwise.has_effects(op)
    )


def _join(group: FusionGroup, value: Value | None, reach: _Reach, lanes: int) -> bool:
    """Add a tile to a group if each of its blocks needs inputs only from the same block.

    Args:
        group: The group, which is changed.
        value: The tile; None if it is already a member and only its axes are added.
        reach: The inputs of the tile.
        lanes: The number of lanes of a chunk.

    Returns:
        True if the tile was added.
    """
    shape = shape_of(group.members[0].type)
    if value is not None and (
        len(group.members) == _MOST_MEMBERS
        or shape_of(value.type) != shape
        or not reach.others.isdisjoint(group.members)
    ):
        return False
    walk = traversal(shape, lanes)
    axes = group.axes | {k for k in reach.axes if walk.lanes_along[k] == 1}
    members = group.members if value is None else [*group.members, value]
    size = max(max(4, SIZES.get(register_type(element_type(v.type)), 2)) for v in members)
    if 1 << len(axes) > max(1, _CHUNKS * 4 // size):
        return False
    group.members, group.axes = members, frozenset(axes)
    return True


def _reach(value: Value, plan: Plan) -> _Reach:
    """Return the stored tiles from which a tile is computed."""
    reach, shape = _Reach(), shape_of(value.type)

    def below(step: _Step) -> list[_Step]:
        current, aligned = step
        op = current.defining_op
        if op is None or (plan.is_stored(current) and current is not value):
            return []
        if op in plan.lane_swaps and current is not value:
            operands, keeps = [plan.lane_swaps[op][0]], aligned
        else:
            keeps = aligned and elementwise.is_elementwise(op.name)
            operands = op.operands
        return [(v, keeps and shape_of(v.type) == shape) for v in operands if v.is_tensor]

    for current, aligned in reachable([(value, True)], below):
        op = current.defining_op
        if current is value:
            continue
        if plan.is_stored(current):
            (reach.aligned if aligned else reach.others).add(current)
        elif aligned and op in plan.lane_swaps:
            reach.axes.add(plan.lane_swaps[op][1])
    return reach


def escaping(group: FusionGroup, plan: Plan) -> list[Value]:
    """Return the members that are read outside the group, directly or by an expression."""
    inside = {member.defining_op for member in group.members}

    def outside(value: Value) -> list[Operation]:
        users = [user for user, _ in value.uses]
        return [user for user in users if user not in inside and user not in plan.skipped]

    def expressions(user: Operation) -> list[Value]:
        return [v for v in user.results if v.is_tensor and not plan.is_stored(v)]

    def escapes(member: Value) -> bool:
        return any(
            user.regions or not user.results or len(expressions(user)) < len(user.results)
            for value in reachable([member], lambda v: chain(*map(expressions, outside(v))))
            for user in outside(value)
        )

    return [member for member in group.members if escapes(member)]
