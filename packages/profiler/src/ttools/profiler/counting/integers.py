"""Selects the integer operations that are part of a kernel's work.

The selected operations compute values that are stored, multiplied as matrices, or converted to
floats. Operations on addresses and masks are excluded: compilers fold them into accesses, hoist
them out of loops, or remove them, so their number is not a lower bound on the executed
instructions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ttools.ir import IntegerType, Operation, Value, element_type
from ttools.ir.dataflow import control_sources, reachable
from ttools.ir.dialects.traits import (
    ATOMIC,
    CAST,
    INTEGER_UNIT,
    LOOP,
    READS,
    STRUCTURED,
    WRITES,
)
from ttools.profiler.counting.costs import is_product

#: Operations on narrower integers are excluded, because they may be vectorised.
_LEAST_BITS = 32


def value_integers(kernel: Operation) -> set[Operation]:
    """Return the integer operations in a kernel's work that compilers cannot hoist out of loops.

    Args:
        kernel: A `tt.func` without calls.
    """
    operations = list(kernel.walk())
    addresses = operations_behind(v for op in operations for v in _addressed(op))
    values = operations_behind(v for op in operations for v in _data(op))
    return {op for op in values - addresses if _is_integer(op) and not _may_be_hoisted(op)}


def _is_integer(op: Operation) -> bool:
    type = element_type(op.results[0].type) if op.results else None
    wide = isinstance(type, IntegerType) and type.width >= _LEAST_BITS
    return wide and op.has(INTEGER_UNIT)


def _leaves_integers(op: Operation) -> bool:
    if not op.has(CAST):
        return False
    before, after = (element_type(v.type) for v in (op.operands[0], op.results[0]))
    return isinstance(before, IntegerType) and not isinstance(after, IntegerType)


def _addressed(op: Operation) -> Iterator[Value]:
    """Yield the operands of an access that determine its address and its mask."""
    if is_access(op):
        data = set(_data(op))
        yield from (value for value in op.operands if value not in data)


def _data(op: Operation) -> Iterator[Value]:
    """Yield operands that are stored, multiplied as matrices, or converted to non-integers."""
    if is_access(op) and op.has(WRITES, ATOMIC):
        value = op.operand("value") or op.operand("val")
        if value is not None:
            yield value
    elif is_product(op) or _leaves_integers(op):
        yield from op.operands


def _may_be_hoisted(op: Operation) -> bool:
    """Return whether a compiler can move an operation out of its loop."""
    around = op.parent_op
    if around is None or not around.has(LOOP):
        return False

    def below(value: Value) -> list[Value]:
        own = value.defining_op
        return own.operands if own is not None and own.parent is op.parent else []

    for value in reachable(op.operands, below):
        own = value.defining_op
        if value.owner is op.parent:
            return False
        if own is not None and own.parent is op.parent and (own.has(STRUCTURED) or is_access(own)):
            return False
    return True


def is_access(op: Operation) -> bool:
    """Return whether an operation reads or writes memory through pointers."""
    return op.operand("ptr") is not None and op.has(READS, WRITES)


def operations_behind(values: Iterable[Value]) -> set[Operation]:
    """Return the operations on which values depend, through loops and branches.

    The search ends at accesses to memory; operations behind their addresses are not included.
    """
    slice_ = reachable(values, _sources)
    operations = {value.defining_op for value in slice_ if value.defining_op is not None}
    return {op for op in operations if not op.has(STRUCTURED)}


def _sources(value: Value) -> Iterable[Value]:
    op = value.defining_op
    if op is None or op.has(STRUCTURED):
        return control_sources(value)
    return () if is_access(op) else op.operands
