"""Where an operation stands: in which loops and regions, and in which operation of a block."""

from __future__ import annotations

from collections.abc import Iterator

from ttools.interpreter.dialects.traits import COMBINES, LOOP
from ttools.interpreter.ir import Block, Operation, Value


def inside_combine(op: Operation) -> bool:
    """Whether `op` lies in the combine region of a reduction, scan or map."""
    block = op.parent
    while block is not None and block.parent is not None and block.parent.parent is not None:
        parent = block.parent.parent
        if parent.has(COMBINES):
            return True
        block = parent.parent
    return False


def loop_depth(block: Block | None) -> int:
    """How many loops a block lies in."""
    depth = 0
    while block is not None and block.parent is not None and block.parent.parent is not None:
        depth += block.parent.parent.has(LOOP)
        block = block.parent.parent.parent
    return depth


def definition_depth(value: Value) -> int:
    """How many loops a value is computed in."""
    op = value.defining_op
    return loop_depth(op.parent if op is not None else None)


def around(op: Operation, block: Block) -> Iterator[Operation]:
    """The operations that contain `op`, from the innermost to those directly in `block`."""
    current = op.parent
    while current is not None and current is not block and current.parent is not None:
        owner = current.parent.parent
        if owner is None:
            return
        yield owner
        current = owner.parent


def ancestor_in(op: Operation, block: Block) -> Operation | None:
    """The operation directly in `block` that is or contains `op`."""
    current: Operation | None = op
    while current is not None and current.parent is not block:
        parent = current.parent
        current = parent.parent.parent if parent is not None and parent.parent is not None else None
    return current
