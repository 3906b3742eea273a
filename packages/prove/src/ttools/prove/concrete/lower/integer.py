"""Sums, products, quotients and extremes of integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ttools.ir import Operation, Value
from ttools.prove.attributes import width_of
from ttools.prove.concrete.lanes import Lanes, either, fit, merged
from ttools.prove.concrete.operations import (
    addition,
    arithmetic,
    combination,
    plain,
    rule,
)
from ttools.prove.concrete.state import State

_EXTREMES = {"arith.minsi": np.minimum, "arith.maxsi": np.maximum}

combination.update({"arith.addi": np.add, **_EXTREMES})
rule.each(
    arithmetic,
    {
        "arith.addi": np.add,
        "arith.subi": np.subtract,
        "arith.muli": np.multiply,
        "arith.shli": np.left_shift,
    },
)


@addition("arith.addi", "tt.addptr")
def _added(op: Operation, to: Value) -> Value | None:
    others = [v for v in op.operands if v is not to]
    return others[0] if len(others) == 1 else None


def _quotients(a: Any, b: Any) -> Any:
    """Rounded towards 0."""
    result = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -result, result)


def _divided(
    function: Callable[[Any, Any], Any],
    run: State,
    op: Operation,
    compute: Callable[..., Lanes] = plain,
) -> Lanes:
    """A quotient or remainder, unknown where the divisor is 0."""

    def by_some(a: Any, b: Any) -> Any:
        return function(a, np.where(b == 0, 1, b))

    found = compute(by_some, run, op)
    zero = run.get(op.operands[1]).data == 0
    if not zero.any():
        return found
    unknown = either(found.unknown, zero | np.zeros_like(found.data, bool))
    return replace(found, unknown=unknown)


# A wrapped operand makes a quotient wrong, as the `overflow` check has it.
rule.each(
    partial(_divided, compute=arithmetic),
    {"arith.divsi": _quotients, "arith.floordivsi": np.floor_divide},
)
rule.each(_divided, {"arith.remsi": lambda a, b: a - _quotients(a, b) * b})


def _unsigned(value: Any, width: int) -> Any:
    return value.astype(np.uint64) & np.uint64((1 << width) - 1)


def _of_unsigned(
    function: Callable[[Any, Any], Any],
    run: State,
    op: Operation,
    compute: Callable[..., Lanes] = _divided,
) -> Lanes:
    width = width_of(op.results[0])

    def signed(a: Any, b: Any) -> Any:
        return function(_unsigned(a, width), _unsigned(b, width)).astype(np.int64)

    return compute(signed, run, op)


rule.each(_of_unsigned, {"arith.divui": np.floor_divide, "arith.remui": np.remainder})
rule.each(
    partial(_of_unsigned, compute=plain),
    {"arith.shrui": np.right_shift, "arith.minui": np.minimum, "arith.maxui": np.maximum},
)
rule.each(plain, {"math.absi": np.abs})


@rule("tt.mulhiui")
def _high_product(run: State, op: Operation) -> Lanes:
    width = width_of(op.results[0])

    def high(a: Any, b: Any) -> Any:
        half = np.uint64(width // 2)
        low = np.uint64((1 << width // 2) - 1)
        (a, c), (b, d) = ((x >> half, x & low) for x in (_unsigned(a, width), _unsigned(b, width)))
        middle = a * d + (c * d >> half)
        carry = (c * b + (middle & low)) >> half
        return (a * b + (middle >> half) + carry).astype(np.int64)

    return plain(high, run, op)


def _extreme(function: Callable[[Any, Any], Any], run: State, op: Operation) -> Lanes:
    a, b = (run.get(v) for v in op.operands)
    data = function(*fit(a.data, b.data))
    if not (a.wraps or b.wraps):
        return Lanes(data, unknown=either(a.unknown, b.unknown))
    exact = function(*fit(a.exact, b.exact))
    return Lanes(data, exact, merged((*a.wraps, *b.wraps)), either(a.unknown, b.unknown))


rule.each(_extreme, _EXTREMES)
