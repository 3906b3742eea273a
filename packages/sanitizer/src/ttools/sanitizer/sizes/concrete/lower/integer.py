"""Sums, products, quotients and extremes of integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ttools.interpreter.ir import Operation, Value
from ttools.sanitizer.sizes.attributes import width_of
from ttools.sanitizer.sizes.concrete.lanes import Lanes, either, fit, merged
from ttools.sanitizer.sizes.concrete.operations import (
    addition,
    arithmetic,
    combination,
    plain,
    rule,
)
from ttools.sanitizer.sizes.concrete.state import State

combination("arith.addi")(np.add)
combination("arith.minsi")(np.minimum)
combination("arith.maxsi")(np.maximum)


@rule("arith.addi")
def _sum(run: State, op: Operation) -> Lanes:
    return arithmetic(run, op, np.add)


@addition("arith.addi", "tt.addptr")
def _added(op: Operation, to: Value) -> Value | None:
    others = [v for v in op.operands if v is not to]
    return others[0] if len(others) == 1 else None


@rule("arith.subi")
def _difference(run: State, op: Operation) -> Lanes:
    return arithmetic(run, op, np.subtract)


@rule("arith.muli")
def _product(run: State, op: Operation) -> Lanes:
    return arithmetic(run, op, np.multiply)


@rule("arith.shli")
def _shift_left(run: State, op: Operation) -> Lanes:
    return arithmetic(run, op, np.left_shift)


def _quotients(a: Any, b: Any) -> Any:
    """Rounded towards 0."""
    result = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -result, result)


def _divided(
    run: State, op: Operation, function: Callable[[Any, Any], Any], *, widens: bool = False
) -> Lanes:
    """A quotient or remainder, unknown where the divisor is 0.

    Args:
        run: the run.
        op: the operation.
        function: of dividend and divisor.
        widens: whether a wrapped operand makes it wrong, as the `overflow` check has it.
    """

    def by_some(a: Any, b: Any) -> Any:
        return function(a, np.where(b == 0, 1, b))

    found = (arithmetic if widens else plain)(run, op, by_some)
    zero = run.get(op.operands[1]).data == 0
    if not zero.any():
        return found
    unknown = either(found.unknown, zero | np.zeros_like(found.data, bool))
    return replace(found, unknown=unknown)


@rule("arith.divsi")
def _quotient(run: State, op: Operation) -> Lanes:
    return _divided(run, op, _quotients, widens=True)


@rule("arith.floordivsi")
def _quotient_below(run: State, op: Operation) -> Lanes:
    return _divided(run, op, np.floor_divide, widens=True)


@rule("arith.remsi")
def _remainder(run: State, op: Operation) -> Lanes:
    return _divided(run, op, lambda a, b: a - _quotients(a, b) * b)


def _unsigned(value: Any, width: int) -> Any:
    return value.astype(np.uint64) & np.uint64((1 << width) - 1)


def _divided_unsigned(run: State, op: Operation, function: Callable[[Any, Any], Any]) -> Lanes:
    width = width_of(op.results[0])

    def signed(a: Any, b: Any) -> Any:
        found = function(_unsigned(a, width), _unsigned(b, width))
        return found.astype(np.int64)

    return _divided(run, op, signed)


@rule("arith.divui")
def _quotient_unsigned(run: State, op: Operation) -> Lanes:
    return _divided_unsigned(run, op, np.floor_divide)


@rule("arith.remui")
def _remainder_unsigned(run: State, op: Operation) -> Lanes:
    return _divided_unsigned(run, op, np.remainder)


@rule("arith.shrui")
def _shift_right_unsigned(run: State, op: Operation) -> Lanes:
    width = width_of(op.results[0])

    def shifted(a: Any, b: Any) -> Any:
        return (_unsigned(a, width) >> _unsigned(b, width)).astype(np.int64)

    return plain(run, op, shifted)


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

    return plain(run, op, high)


def _extreme(run: State, op: Operation, function: Callable[[Any, Any], Any]) -> Lanes:
    a, b = (run.get(v) for v in op.operands)
    data = function(*fit(a.data, b.data))
    if not (a.wraps or b.wraps):
        return Lanes(data, unknown=either(a.unknown, b.unknown))
    exact = function(*fit(a.exact, b.exact))
    return Lanes(data, exact, merged((*a.wraps, *b.wraps)), either(a.unknown, b.unknown))


@rule("arith.minsi")
def _minimum(run: State, op: Operation) -> Lanes:
    return _extreme(run, op, np.minimum)


@rule("arith.maxsi")
def _maximum(run: State, op: Operation) -> Lanes:
    return _extreme(run, op, np.maximum)


@rule("arith.minui")
def _minimum_unsigned(run: State, op: Operation) -> Lanes:
    return _extreme_unsigned(run, op, np.minimum)


@rule("arith.maxui")
def _maximum_unsigned(run: State, op: Operation) -> Lanes:
    return _extreme_unsigned(run, op, np.maximum)


def _extreme_unsigned(run: State, op: Operation, function: Callable[[Any, Any], Any]) -> Lanes:
    width = width_of(op.results[0])

    def signed(a: Any, b: Any) -> Any:
        return function(_unsigned(a, width), _unsigned(b, width)).astype(np.int64)

    return plain(run, op, signed)


@rule("math.absi")
def _absolute(run: State, op: Operation) -> Lanes:
    return plain(run, op, np.abs)
