"""Finds the operations that values depend on, and the values that decide what is executed.

Dependence through memory is ignored: the result of a load depends on its address and mask, but not
on earlier stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ttools.ir import Operation, Value
from ttools.ir.dataflow import control_sources, deciding_values, reachable
from ttools.ir.dialects.traits import STRUCTURED


def computed_from(values: Iterable[Value]) -> set[Operation]:
    """Return the operations that `values` depend on, including those that compute `values`."""
    sources = reachable(values, _sources)
    return {value.defining_op for value in sources if value.defining_op is not None}


def _sources(value: Value) -> list[Value]:
    op = value.defining_op
    if op is None:
        return control_sources(value)
    if op.has(STRUCTURED):
        return [*op.operands, *control_sources(value), *deciding_values(op)]
    return op.operands


def deciding(op: Operation) -> Iterator[Value]:
    """Yield the values that determine whether, and how often, an operation runs."""
    block = op.parent
    while block is not None:
        region, holder = block.parent, block.parent_op
        if region is not None and len(region.blocks) > 1:
            for other in region.blocks:
                yield from other.terminator.operands[:1]
        if holder is not None:
            yield from deciding_values(holder)
        block = None if holder is None else holder.parent
