"""What values are computed by, back to the accesses that their operands come from."""

from __future__ import annotations

from collections.abc import Iterable

from ttools.interpreter.dialects.traits import READS, STRUCTURED, WRITES
from ttools.interpreter.ir import Block, Operation, Value
from ttools.interpreter.ir.dataflow import block_argument_sources, region_result_sources


def is_access(op: Operation) -> bool:
    """Whether it reads or writes memory through pointers."""
    return op.operand("ptr") is not None and op.has(READS, WRITES)


def operations_behind(values: Iterable[Value]) -> set[Operation]:
    """The operations that values depend on, through loops and branches.

    Accesses are the last ones: what decides where they are is not followed.
    """
    found: set[Operation] = set()
    seen: set[Value] = set()
    pending = list(values)
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value.owner, Block):
            pending += filter(None, block_argument_sources(value, value.owner))
            continue
        op = value.owner
        if op.has(STRUCTURED):
            pending += region_result_sources(op, value.index)
            continue
        found.add(op)
        if not is_access(op):
            pending += op.operands
    return found
