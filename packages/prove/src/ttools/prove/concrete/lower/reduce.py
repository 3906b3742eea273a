"""What is combined along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ttools.ir import IntegerType, Operation, element_type, shape_of
from ttools.ir.combining import combined_by
from ttools.prove.attributes import axis_of
from ttools.prove.concrete.lanes import Lanes, mixed, spread, wrapped
from ttools.prove.concrete.operations import combination, otherwise, rule, with_wraps
from ttools.prove.concrete.state import State


@rule("tt.reduce")
def _reduce(run: State, op: Operation) -> Lanes:
    axis = axis_of(op) + 1
    found = _integers(run, op, lambda combine, data: combine.reduce(data, axis=axis))
    if found is not None or len(op.operands) != 1:
        return found or otherwise(run, op, op.results[0])
    kind = element_type(op.results[0].type)
    if isinstance(kind, IntegerType):
        return otherwise(run, op, op.results[0])
    whole = spread(run.get(op.operands[0]).data, (run.count, *shape_of(op.operands[0].type)))
    total = np.sum(whole.astype(np.uint64), axis=axis, dtype=np.uint64)
    return Lanes(mixed("reduce", total))


@rule("tt.scan")
def _scan(run: State, op: Operation) -> Lanes:
    axis, reverse = axis_of(op) + 1, bool(op.attributes.get("reverse"))

    def over(combine: np.ufunc, data: Any) -> Any:
        if reverse:
            return np.flip(combine.accumulate(np.flip(data, axis), axis=axis), axis)
        return combine.accumulate(data, axis=axis)

    return _integers(run, op, over) or otherwise(run, op, op.results[0])


def _integers(run: State, op: Operation, over: Callable[[np.ufunc, Any], Any]) -> Lanes | None:
    """Known integers combined in a way that is known; None if they are not."""
    combine = combination.get(combined_by(op) or "")
    value, kind = run.get(op.operands[0]), element_type(op.operands[0].type)
    if combine is None or not isinstance(kind, IntegerType) or kind.width == 1:
        return None
    if value.unknown is not None and value.unknown.any():
        return None
    shape = (run.count, *shape_of(op.operands[0].type))
    data = wrapped(over(combine, spread(value.data, shape)), kind.width)
    # A twin ends at operations on bits.
    exact = data if combine is np.bitwise_xor else over(combine, spread(value.exact, shape))
    return with_wraps(op, data, exact, (), None)
