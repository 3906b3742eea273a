"""Sums, products, quotients and extremes of integers."""

from __future__ import annotations

from collections.abc import Callable

from ttools.interpreter.ir import Operation
from ttools.sanitizer.sizes.algebra.polynomials import (
    ZERO,
    Poly,
    floordiv,
    maximum,
    minimum,
    modulo,
)
from ttools.sanitizer.sizes.attributes import width_of
from ttools.sanitizer.sizes.symbolic.operations import (
    Function,
    combined,
    is_condition,
    otherwise,
    rule,
)
from ttools.sanitizer.sizes.symbolic.state import State
from ttools.sanitizer.sizes.symbolic.values import (
    UNKNOWN,
    AnyValue,
    Case,
    Need,
    Number,
    facts_of,
    joined,
    needs_of,
)


def _linear(kernel: State, op: Operation, function: Function) -> AnyValue:
    return UNKNOWN if is_condition(op.results[0]) else combined(kernel, op, function)


@rule("arith.addi")
def _sum(kernel: State, op: Operation) -> AnyValue:
    return _linear(kernel, op, lambda p, q: p + q)


@rule("arith.subi")
def _difference(kernel: State, op: Operation) -> AnyValue:
    return _linear(kernel, op, lambda p, q: p - q)


@rule("arith.muli")
def _product(kernel: State, op: Operation) -> AnyValue:
    return _linear(kernel, op, lambda p, q: p * q)


@rule("arith.shli")
def _shift_left(kernel: State, op: Operation) -> AnyValue:
    bits = kernel.number(op.operands[1]).single
    amount = None if bits is None else bits.constant
    if amount is None or not 0 <= amount < 63 or is_condition(op.results[0]):
        return otherwise(kernel, op, op.results[0])
    return combined(kernel, op, lambda p, _: p * (1 << amount))


def _divided(kernel: State, op: Operation, function: Callable[[Poly, Poly], Poly]) -> AnyValue:
    """A quotient or remainder of what is not below 0 by what is above, so signs do not matter."""
    combinations = joined(*(kernel.number(v) for v in op.operands))
    if combinations is None or is_condition(op.results[0]):
        return otherwise(kernel, op, op.results[0])
    cases = []
    half = 1 << (width_of(op.results[0]) - 1)
    nonneg = kernel.space.nonneg
    for p, d in combinations:
        facts = [f.poly for f in (*facts_of((p, d)), *kernel.context) if not f.needs]
        if not nonneg(d.value - 1, facts):
            return kernel.unknown(op.results[0])
        needs = needs_of((p, d))
        is_nonneg = nonneg(p.value, facts)
        if not is_nonneg:
            # Rounded towards 0, so below 0 the quotient is another.
            needs = needs | {Need(op, p.value, 0, half - 1, "model")}
        value = function(p.value, d.value)
        if is_nonneg and nonneg(d.value - 1 - p.value, facts):
            value = p.value if function is modulo else ZERO
        cases.append(Case(value, facts_of((p, d)), needs))
    return Number(tuple(cases))


@rule("arith.divsi", "arith.divui", "arith.floordivsi")
def _quotient(kernel: State, op: Operation) -> AnyValue:
    return _divided(kernel, op, floordiv)


@rule("arith.remsi", "arith.remui")
def _remainder(kernel: State, op: Operation) -> AnyValue:
    return _divided(kernel, op, modulo)


@rule("arith.minsi")
def _minimum(kernel: State, op: Operation) -> AnyValue:
    def smaller(p: Poly, q: Poly) -> Poly:
        low, high = kernel.space.range(p - q)
        if high is not None and high <= 0:
            return p
        return q if low is not None and low >= 0 else minimum(p, q)

    return combined(kernel, op, smaller)


@rule("arith.maxsi")
def _maximum(kernel: State, op: Operation) -> AnyValue:
    def larger(p: Poly, q: Poly) -> Poly:
        low, high = kernel.space.range(p - q)
        if low is not None and low >= 0:
            return p
        return q if high is not None and high <= 0 else maximum(p, q)

    return combined(kernel, op, larger)


@rule("math.absi")
def _absolute(kernel: State, op: Operation) -> AnyValue:
    return combined(kernel, op, lambda p: maximum(p, -p))
