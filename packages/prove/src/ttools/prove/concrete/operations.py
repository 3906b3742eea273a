"""What single operations compute of lanes: what rules share; these are in `lower`."""

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
from ttools.ir.dialects import declared
from ttools.prove.attributes import width_of
from ttools.prove.concrete.lanes import (
    Lanes,
    either,
    fit,
    hashed,
    merged,
    mixed,
    spread,
    wrapped,
)
from ttools.prove.concrete.state import State
from ttools.prove.rules import Rules, require_modelled

#: The result of an operation that neither accesses memory nor has control flow.
rule: Rules[Callable[[State, Operation], Lanes]] = Rules()
#: Of operations with several results.
several: Rules[Callable[[State, Operation], list[Lanes]]] = Rules()
#: What an operation adds to one of its operands; None if it does anything else.
addition: Rules[Callable[[Operation, Value], Value | None]] = Rules()
#: How a reduction or scan combines integers by an operation.
combination: Rules[np.ufunc] = Rules()


def evaluate(run: State, op: Operation) -> list[Lanes]:
    """The results of an operation that neither accesses memory nor has control flow."""
    known = rule.get(op.name)
    if known is not None and len(op.results) == 1:
        return [known(run, op)]
    parted = several.get(op.name)
    if parted is not None:
        return parted(run, op)
    require_modelled(op)
    return [otherwise(run, op, result) for result in op.results]


def otherwise(run: State, op: Operation, result: Value) -> Lanes:
    """The result where no rule is: unknown, or of floats how it came about."""
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


def moved_by(pointer: Lanes, offset: Lanes, data: Any) -> Lanes:
    """A pointer that an offset has moved to `data`."""
    wraps = list(pointer.wraps)
    if offset.twin is not None:
        wrong = offset.twin != offset.data
        wraps += [(op, np.logical_and(*fit(wrong, m))) for op, m in offset.wraps]
    unknown = either(pointer.unknown, offset.unknown)
    return Lanes(data, None, merged(wraps), unknown, pointer.base)


def grown(start: Lanes, step: Lanes, times: Any, culprit: Operation) -> Lanes:
    """A value after so many iterations of each program that each add the same to it."""
    data, exact, amount, times = fit(*map(np.asarray, (start.data, start.exact, step.data, times)))
    total = amount * times
    if start.base is not None:
        return moved_by(start, step, data + total)
    kept = wrapped(data + total, width_of(culprit.results[0]))
    unknown = either(start.unknown, step.unknown)
    return with_wraps(culprit, kept, exact + total, (start,), unknown)


def with_wraps(
    op: Operation, data: Any, exact: Any, operands: tuple[Lanes, ...], unknown: Any
) -> Lanes:
    """A result, and the operations that have lost bits on its way."""
    lost = data != exact
    wraps = merged(w for each in operands for w in each.wraps)
    if not lost.any():
        return Lanes(data, None, (), unknown)
    if 1 < width_of(op.results[0]) < 64 and declared(op.name).noun:
        # Where an operand was wrong before, the first operation counts.
        before = either(*(lanes for _, lanes in wraps))
        new = lost if before is None else np.logical_and(*fit(lost, np.logical_not(before)))
        if new.any():
            wraps = (*wraps, (op, new))
    return Lanes(data, exact, merged(wraps), unknown)


def arithmetic(function: Callable[[Any, Any], Any], run: State, op: Operation) -> Lanes:
    """An operation whose exact result is computed beside it."""
    a, b = (run.get(v) for v in op.operands)
    width = width_of(op.results[0])
    if width == 1:
        return otherwise(run, op, op.results[0])
    data = wrapped(function(*fit(a.data, b.data)), width)
    exact = function(*fit(a.exact, b.exact))
    return with_wraps(op, data, exact, (a, b), either(a.unknown, b.unknown))


def plain(function: Callable[..., Any], run: State, op: Operation) -> Lanes:
    """An operation at which a twin ends."""
    parts = [run.get(v) for v in op.operands]
    data = function(*fit(*(p.data for p in parts)))
    if width_of(op.results[0]) == 1:
        data = np.asarray(data, bool)
    else:
        data = wrapped(data, width_of(op.results[0]))
    return Lanes(data, unknown=either(*(p.unknown for p in parts)))
