"""Evaluation of single operations at one size.

Integer operations and views are evaluated by their declarations in `ttools.ir`, and all other
operations by the rules in `lower`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ttools.ir import (
    IntegerType,
    Operation,
    PointerType,
    Value,
    element_type,
    shape_of,
)
from ttools.prove.attributes import width_of
from ttools.prove.concrete.integers import computed, moved_by, with_wraps
from ttools.prove.concrete.lanes import (
    Lanes,
    either,
    fit,
    hashed,
    mixed,
    spread,
    wrapped,
)
from ttools.prove.concrete.state import State
from ttools.prove.concrete.views import viewed
from ttools.prove.rules import Rules, require_modelled

#: Rules for operations that neither access memory nor have control flow.
rule: Rules[Callable[[State, Operation], Lanes]] = Rules()


def evaluate(run: State, op: Operation) -> list[Lanes]:
    """Return the results of an operation that neither accesses memory nor has control flow."""
    number = computed(run, op)
    if number is not None:
        return [number]
    views = [view for result in op.results if (view := viewed(run, result)) is not None]
    if views and len(views) == len(op.results):
        return views
    lower = rule.get(op.name)
    if lower is not None and len(op.results) == 1:
        return [lower(run, op)]
    require_modelled(op)
    return [otherwise(run, op, result) for result in op.results]


def otherwise(run: State, op: Operation, result: Value) -> Lanes:
    """Return the result of an operation without a rule: hashes for floats, else unknown."""
    kind = element_type(result.type)
    shape = (run.count, *shape_of(result.type))
    if isinstance(kind, IntegerType):
        data = np.zeros(shape, bool if kind.width == 1 else np.int64)
        return Lanes(data, unknown=np.ones(shape, bool))
    if isinstance(kind, PointerType):
        return Lanes(np.zeros(shape, np.int64), unknown=np.ones(shape, bool))
    parts = [run.get(v) for v in op.operands]
    if any(shape_of(v.type) != shape[1:] for v in op.operands):
        rows = np.arange(int(np.prod(shape)), dtype=np.uint64).reshape(shape)
        return Lanes(mixed(op.name, rows, hashed(run.order(op))))
    return Lanes(spread(mixed(op.name, *fit(*(p.data for p in parts))), shape))


def grown(start: Lanes, step: Lanes, times: Any, culprit: Operation) -> Lanes:
    """Return a value after iterations that each add the same step to it.

    Args:
        start: The value before these iterations.
        step: Amount that is added in each iteration.
        times: Number of iterations in each program.
        culprit: The operation that adds the step; it has lost bits if the result wraps.
    """
    data, exact, amount, times = fit(*map(np.asarray, (start.data, start.exact, step.data, times)))
    total = amount * times
    if start.base is not None:
        return moved_by(start, step, data + total)
    kept = wrapped(data + total, width_of(culprit.results[0]))
    unknown = either(start.unknown, step.unknown)
    return with_wraps(culprit, kept, exact + total, (start,), unknown)
