"""Positions of operations in loops, regions and blocks."""

from __future__ import annotations

from collections.abc import Iterator

from ttools.ir import Block, Operation, Region, Value
from ttools.ir.dialects.traits import COMBINES, LOOP, STRUCTURED


def outside_combines(op: Operation) -> Iterator[Operation]:
    """Yield `op` and the operations in it, except those in reductions, scans and maps."""
    yield op
    if op.regions and COMBINES not in op.traits:
        for region in op.regions:
            for block in region.blocks:
                for inner in block.operations:
                    if inner.regions:
                        yield from outside_combines(inner)
                    else:
                        yield inner


def blocks_within(region: Region) -> Iterator[Block]:
    """Yield the blocks of a region, each before the blocks of the loops and conditionals in it."""
    for block in region.blocks:
        yield block
        for op in block.operations:
            if STRUCTURED in op.traits:
                for inner in op.regions:
                    yield from blocks_within(inner)


def loop_depth(block: Block | None) -> int:
    """Return the number of loops around a block."""
    depth = 0
    parent = None if block is None else block.parent_op
    while parent is not None:
        depth += LOOP in parent.traits
        parent = parent.parent_op
    return depth


def definition_depth(value: Value) -> int:
    """Return the number of loops around the definition of a value."""
    op = value.defining_op
    return loop_depth(op.parent if op is not None else None)


def around(op: Operation, block: Block) -> Iterator[Operation]:
    """Yield the operations that contain `op`, from the innermost to those directly in `block`."""
    while op.parent is not block and (parent := op.parent_op) is not None:
        yield parent
        op = parent


def ancestor_in(op: Operation, block: Block) -> Operation | None:
    """Return the operation directly in `block` that is or contains `op`."""
    current: Operation | None = op
    while current is not None and current.parent is not block:
        current = current.parent_op
    return current
