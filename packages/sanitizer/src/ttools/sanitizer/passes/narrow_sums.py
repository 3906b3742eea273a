"""Sums of many integers of 8 or 16 bits, whose wrapped results the check `overflow` reports.

These are reductions, scans, and values to which a loop adds. `passes.numeric` follows them to
memory. A single narrow sum or product is not included unless a loop adds it to such a value:

    acc = tl.zeros([B], tl.int8)
    for k in range(0, K, B):
        acc += tl.load(a_ptr + k + i) * tl.load(b_ptr + k + i)   # wraps after a few iterations
"""

from __future__ import annotations

from ttools.ir import Module, Operation, Value
from ttools.ir.combining import combined_by
from ttools.ir.dataflow import carried_values
from ttools.ir.dialects.traits import LOOP
from ttools.ir.semantics import width_of
from ttools.sanitizer.analysis.dataflow import operations
from ttools.sanitizer.passes.lost_values import may_lose

_WIDTHS = (8, 16)


def narrow_sums(module: Module) -> frozenset[Operation]:
    """Return the operations of a kernel whose wrapped results are reported."""
    every = list(operations(module.kernel))
    sums = {op for op in every if _is_narrow(op) and combined_by(op) is not None}
    for loop in every:
        if loop.has(LOOP) and len(loop.regions) == 1:
            for carried in carried_values(loop):
                op = carried.yielded.defining_op
                if op is not None and _adds_to(op, carried.argument):
                    sums |= {op, *_products(op)}
    return frozenset(sums)


def _is_narrow(op: Operation) -> bool:
    return bool(op.results) and width_of(op.results[0]) in _WIDTHS and bool(may_lose(op))


def _adds_to(op: Operation, value: Value) -> bool:
    return _is_narrow(op) and op.declaration.noun == "sum" and value in op.operands


def _products(op: Operation) -> list[Operation]:
    """Return the narrow products among the operands of a sum."""
    made = (value.defining_op for value in op.operands)
    return [
        factor
        for factor in made
        if factor is not None and _is_narrow(factor) and factor.declaration.noun == "product"
    ]
