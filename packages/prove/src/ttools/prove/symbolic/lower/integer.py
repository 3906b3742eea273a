"""Sums, products, quotients and extremes of integers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial

from ttools.ir import Operation
from ttools.ir.expr import (
    ZERO,
    Expr,
    floordiv,
    maximum,
    minimum,
    modulo,
)
from ttools.prove.attributes import width_of
from ttools.prove.symbolic.operations import (
    Function,
    combined,
    is_condition,
    otherwise,
    rule,
)
from ttools.prove.symbolic.state import State
from ttools.prove.symbolic.values import (
    UNKNOWN,
    AnyValue,
    Case,
    Fact,
    Need,
    Number,
    facts_of,
    joined,
    needs_of,
)

#: Those that round towards 0.
_SIGNED = frozenset({"arith.divsi", "arith.remsi"})
#: So many cases at most where some are above 0 and some below.
_MOST_PARTED = 4


def _linear(function: Function, kernel: State, op: Operation) -> AnyValue:
    return UNKNOWN if is_condition(op.results[0]) else combined(kernel, op, function)


rule.each(
    _linear,
    {"arith.addi": operator.add, "arith.subi": operator.sub, "arith.muli": operator.mul},
)


@rule("arith.shli")
def _shift_left(kernel: State, op: Operation) -> AnyValue:
    bits = kernel.number(op.operands[1]).single
    amount = None if bits is None else bits.constant
    if amount is None or not 0 <= amount < 63 or is_condition(op.results[0]):
        return otherwise(kernel, op, op.results[0])
    return combined(kernel, op, lambda p, _: p * (1 << amount))


def _divided(function: Callable[[Expr, Expr], Expr], kernel: State, op: Operation) -> AnyValue:
    """A quotient or remainder by what is above 0; below 0 it is the opposite of the opposite's."""
    combinations = joined(*(kernel.number(v) for v in op.operands))
    if combinations is None or is_condition(op.results[0]):
        return otherwise(kernel, op, op.results[0])
    cases: list[Case] = []
    nonneg = kernel.space.nonneg
    may_part = op.name in _SIGNED and 2 * len(combinations) <= _MOST_PARTED
    for p, d in combinations:
        facts = [f.expr for f in (*facts_of((p, d)), *kernel.context) if not f.needs]
        if not nonneg(d.value - 1, facts):
            return kernel.unknown(op.results[0])
        needs, when = needs_of((p, d)), facts_of((p, d))
        if nonneg(p.value, facts):
            value = function(p.value, d.value)
            if nonneg(d.value - 1 - p.value, facts):
                value = p.value if function is modulo else ZERO
            cases.append(Case(value, when, needs))
        elif may_part:
            below = -function(-p.value, d.value)
            cases += [
                Case(function(p.value, d.value), (*when, Fact(p.value, p.needs)), needs),
                Case(below, (*when, Fact(-1 - p.value, p.needs)), needs),
            ]
        else:
            half = 1 << (width_of(op.results[0]) - 1)
            needs = needs | {Need(op, p.value, 0, half - 1, "model")}
            cases.append(Case(function(p.value, d.value), when, needs))
    return Number(tuple(cases))


rule("arith.divsi", "arith.divui", "arith.floordivsi")(partial(_divided, floordiv))
rule("arith.remsi", "arith.remui")(partial(_divided, modulo))


def _extreme(function: Callable[[Expr, Expr], Expr], kernel: State, op: Operation) -> AnyValue:
    def chosen(p: Expr, q: Expr) -> Expr:
        low, high = kernel.space.range(p - q)
        less, more = (p, q) if high is not None and high <= 0 else (q, p)
        if less is q and (low is None or low < 0):
            return function(p, q)
        return less if function is minimum else more

    return combined(kernel, op, chosen)


rule.each(_extreme, {"arith.minsi": minimum, "arith.maxsi": maximum})


@rule("arith.minui", "arith.maxui")
def _unsigned_extreme(kernel: State, op: Operation) -> AnyValue:
    """Of what is not below 0 it is that of signed numbers."""
    operands = [kernel.number(v) for v in op.operands]
    lows = [kernel.space.range(case.value)[0] for known in operands for case in known.cases]
    if any(low is None or low < 0 for low in lows):
        return otherwise(kernel, op, op.results[0])
    return _extreme(minimum if op.name == "arith.minui" else maximum, kernel, op)


@rule("math.absi")
def _absolute(kernel: State, op: Operation) -> AnyValue:
    return combined(kernel, op, lambda p: maximum(p, -p))
