"""Conditions, comparisons, choices, and bits of integers."""

from __future__ import annotations

from ttools.interpreter.ir import Operation
from ttools.sanitizer.sizes.algebra.polynomials import Poly, as_poly, floordiv, modulo
from ttools.sanitizer.sizes.symbolic.operations import is_condition, otherwise, rule
from ttools.sanitizer.sizes.symbolic.state import State
from ttools.sanitizer.sizes.symbolic.values import (
    UNKNOWN,
    AnyValue,
    Case,
    Logic,
    Number,
    Opaque,
    alternatives,
    compare,
    facts_of,
    joined,
    needs_of,
    negated,
)


@rule("arith.andi")
def _and(kernel: State, op: Operation) -> AnyValue:
    if is_condition(op.results[0]):
        return Logic("and", tuple(kernel.logic(v) for v in op.operands))
    left, right = (kernel.number(v) for v in op.operands)
    for value, mask in ((left, right), (right, left)):
        bits = None if mask.single is None else mask.single.constant
        if bits is None or len(value.cases) != 1:
            continue
        (case,) = value.cases
        needs = case.needs | mask.cases[0].needs
        if bits < 0 and -bits & (-bits - 1) == 0:  # clears the lowest bits, of any sign
            cleared = case.value - modulo(case.value, as_poly(-bits))
            return Number((Case(cleared, case.when, needs),))
        if bits >= 0 and bits & (bits + 1) == 0:
            low = kernel.space.range(case.value)[0]
            if low is not None and low >= 0:
                return Number((Case(modulo(case.value, as_poly(bits + 1)), case.when, needs),))
    bits = next(
        (c for v in (left, right) if (p := v.single) is not None and (c := p.constant) is not None),
        None,
    )
    if bits is not None and bits >= 0:
        return kernel.unknown(op.results[0], 0, bits)
    return kernel.unknown(op.results[0])


@rule("arith.ori")
def _or(kernel: State, op: Operation) -> AnyValue:
    if is_condition(op.results[0]):
        return Logic("or", tuple(kernel.logic(v) for v in op.operands))
    return _put_together(kernel, op)


def _put_together(kernel: State, op: Operation) -> AnyValue:
    """Numbers that have no bit in common: the sum, which cannot leave a type that holds both."""
    cases = []
    for pair in joined(*(kernel.number(v) for v in op.operands)) or ():
        p, q = (case.value for case in pair)
        if any(case.base is not None for case in pair) or not (
            _below_bits(kernel, p, q) or _below_bits(kernel, q, p)
        ):
            return kernel.unknown(op.results[0])
        cases.append(Case(p + q, facts_of(pair), needs_of(pair)))
    return Number(tuple(cases)) if cases else kernel.unknown(op.results[0])


def _below_bits(kernel: State, high: Poly, low: Poly) -> bool:
    """Whether one number is a multiple of a power of 2 and another is in 0 .. that power - 1."""
    first, last = kernel.space.range(low)
    if first is None or first < 0 or last is None:
        return False
    return all(factor % (1 << last.bit_length()) == 0 for factor in high.terms.values())


@rule("arith.xori")
def _xor(kernel: State, op: Operation) -> AnyValue:
    if is_condition(op.results[0]):
        for value, other in (op.operands, reversed(op.operands)):
            if kernel.logic(other).kind == "true":
                return negated(kernel.logic(value))
        return UNKNOWN
    return _put_together(kernel, op)


@rule("arith.shrsi")
def _shift_right(kernel: State, op: Operation) -> AnyValue:
    bits = kernel.number(op.operands[1]).single
    amount = None if bits is None else bits.constant
    if amount is None or not 0 <= amount < 63 or is_condition(op.results[0]):
        return otherwise(kernel, op, op.results[0])
    divisor, value = as_poly(1 << amount), kernel.number(op.operands[0])
    return Number(tuple(Case(floordiv(c.value, divisor), c.when, c.needs) for c in value.cases))


@rule("arith.shrui")
def _shift_right_unsigned(kernel: State, op: Operation) -> AnyValue:
    lows = [kernel.space.range(c.value)[0] for c in kernel.number(op.operands[0]).cases]
    if any(low is None or low < 0 for low in lows):
        return otherwise(kernel, op, op.results[0])
    return _shift_right(kernel, op)


@rule("arith.cmpi")
def _compare(kernel: State, op: Operation) -> AnyValue:
    predicate = str(op.attributes["predicate"])
    if is_condition(op.operands[0]):
        return UNKNOWN
    left, right = (kernel.number(v) for v in op.operands)
    if any(c.base is not None for v in (left, right) for c in v.cases):
        return UNKNOWN
    if predicate.startswith("u"):
        for each in (*left.cases, *right.cases):
            low = kernel.space.range(each.value)[0]
            if low is None or low < 0:
                return UNKNOWN
    relation = predicate.lstrip("su") if predicate not in ("eq", "ne") else predicate
    if relation in ("eq", "ne"):
        found = compare("eq", left, right)
        return found if relation == "eq" else negated(found)
    if relation in ("gt", "lt"):
        one, other = (right, left) if relation == "gt" else (left, right)
        return negated(compare("ge", one, other))
    one, other = (left, right) if relation == "ge" else (right, left)
    return compare("ge", one, other)


@rule("arith.select")
def _select(kernel: State, op: Operation) -> AnyValue:
    result = op.results[0]
    condition = kernel.logic(op.operands[0])
    one, other = kernel.get(op.operands[1]), kernel.get(op.operands[2])
    if is_condition(result):
        a, b = kernel.logic(op.operands[1]), kernel.logic(op.operands[2])
        chosen = Logic("and", (condition, a))
        return Logic("or", (chosen, Logic("and", (negated(condition), b))))
    if isinstance(one, Opaque) and isinstance(other, Opaque):
        return Opaque(False)
    cases = [
        Case(c.value, (*facts, *c.when), c.needs, c.base)
        for value, way in ((op.operands[1], condition), (op.operands[2], negated(condition)))
        for facts in alternatives(way)
        for c in kernel.number(value).cases
    ]
    return Number(tuple(cases)) if 0 < len(cases) <= 8 else kernel.unknown(result)
