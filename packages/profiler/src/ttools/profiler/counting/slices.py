"""What values are computed by, back to the accesses that their operands come from."""

from __future__ import annotations

from collections.abc import Iterable

from ttools.interpreter.dialects.traits import READS, STRUCTURED, WRITES
from ttools.interpreter.ir import Operation, Value
from ttools.interpreter.ir.dataflow import control_sources, reachable


def is_access(op: Operation) -> bool:
    """Whether it reads or writes memory through pointers."""
    return op.operand("ptr") is not None and op.has(READS, WRITES)


def operations_behind(values: Iterable[Value]) -> set[Operation]:
    """The operations that values depend on, through loops and branches.

    Accesses are the last ones: what decides where they are is not followed.
    """
    slice_ = reachable(values, _sources)
    found = {value.defining_op for value in slice_ if value.defining_op is not None}
    return {op for op in found if not op.has(STRUCTURED)}


def _sources(value: Value) -> Iterable[Value]:
    op = value.defining_op
    if op is None or op.has(STRUCTURED):
        return control_sources(value)
    return () if is_access(op) else op.operands
