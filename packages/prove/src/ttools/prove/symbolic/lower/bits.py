"""Conditions, comparisons, choices, and bits of integers."""

from __future__ import annotations

from dataclasses import replace

from ttools.ir import Operation, Value, shape_of
from ttools.ir.combining import combined_by
from ttools.ir.expr import Expr, as_expr, floordiv, modulo
from ttools.prove.attributes import axis_of, width_of
from ttools.prove.symbolic.lower.shape import exchanged
from ttools.prove.symbolic.operations import is_condition, otherwise, rule
from ttools.prove.symbolic.state import State
from ttools.prove.symbolic.values import (
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
    number,
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
            cleared = case.value - modulo(case.value, as_expr(-bits))
            return Number((Case(cleared, case.when, needs),))
        if bits >= 0 and bits & (bits + 1) == 0:
            low = kernel.space.range(case.value)[0]
            if low is not None and low >= 0:
                return Number((Case(modulo(case.value, as_expr(bits + 1)), case.when, needs),))
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


def _below_bits(kernel: State, high: Expr, low: Expr) -> bool:
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
    for value, other in (op.operands, reversed(op.operands)):
        axis = _exchanged_axis(value, other)
        if axis is not None:
            return exchanged(kernel, value, axis)
    for value, other in (op.operands, reversed(op.operands)):
        mask = kernel.number(other).single
        bits = None if mask is None else mask.constant
        if bits is not None:
            cases = kernel.number(value).cases
            if all(case.base is None for case in cases):
                return Number(tuple(replace(c, value=_flipped(c.value, bits)) for c in cases))
    return _put_together(kernel, op)


def _exchanged_axis(value: Value, other: Value) -> int | None:
    """The axis of two lanes of which `value ^ other` exchanges them, as `tl.flip` does."""
    made = other.defining_op
    while made is not None and made.name in ("tt.broadcast", "tt.splat", "tt.expand_dims"):
        made = made.operands[0].defining_op
    if made is None or combined_by(made) != "arith.xori" or made.operands[0] is not value:
        return None
    axis, shape = axis_of(made), shape_of(value.type)
    reached = shape_of(other.defining_op.operands[0].type) if other.defining_op else ()
    kept = not reached or reached == (*shape[:axis], 1, *shape[axis + 1 :])
    return axis if shape[axis] == 2 and made.name == "tt.reduce" and kept else None


def _flipped(p: Expr, bits: int) -> Expr:
    """`p ^ bits` of numbers of any sign, which has no bits above those of both."""
    if bits < 0:
        return -1 - _flipped(p, ~bits)
    at = 0
    while bits >> at:
        first = at + (bits >> at & -(bits >> at)).bit_length() - 1
        last = first + (~(bits >> first) & (bits >> first) + 1).bit_length() - 1
        low, high = as_expr(1 << first), as_expr(1 << last)
        inner = modulo(floordiv(p, low), as_expr(1 << (last - first)))
        p = high * floordiv(p, high) + (high - low) - low * inner + modulo(p, low)
        at = last
    return p


@rule("tt.mulhiui")
def _high_product(kernel: State, op: Operation) -> AnyValue:
    """Of numbers that are not below 0, whose whole product fits into twice the bits."""
    width = width_of(op.results[0])
    cases = []
    for pair in joined(*(kernel.number(v) for v in op.operands)) or ():
        if not all(kernel.space.within(c.value, 0, 1 << width) for c in pair):
            return otherwise(kernel, op, op.results[0])
        p, q = (case.value for case in pair)
        cases.append(Case(floordiv(p * q, as_expr(1 << width)), facts_of(pair), needs_of(pair)))
    return Number(tuple(cases)) if cases else otherwise(kernel, op, op.results[0])


@rule("arith.shrsi")
def _shift_right(kernel: State, op: Operation) -> AnyValue:
    bits = kernel.number(op.operands[1]).single
    amount = None if bits is None else bits.constant
    if amount is None or not 0 <= amount < 63 or is_condition(op.results[0]):
        return otherwise(kernel, op, op.results[0])
    divisor, value = as_expr(1 << amount), kernel.number(op.operands[0])
    return Number(tuple(Case(floordiv(c.value, divisor), c.when, c.needs) for c in value.cases))


@rule("arith.shrui")
def _shift_right_unsigned(kernel: State, op: Operation) -> AnyValue:
    lows = [kernel.space.range(c.value)[0] for c in kernel.number(op.operands[0]).cases]
    if any(low is None or low < 0 for low in lows):
        return otherwise(kernel, op, op.results[0])
    return _shift_right(kernel, op)


def _is_nonneg(kernel: State, value: Number) -> bool:
    lows = [kernel.space.range(case.value)[0] for case in value.cases]
    return all(low is not None and low >= 0 for low in lows)


@rule("arith.cmpi")
def _compare(kernel: State, op: Operation) -> AnyValue:
    predicate = str(op.attributes["predicate"])
    if is_condition(op.operands[0]):
        return UNKNOWN
    left, right = (kernel.number(v) for v in op.operands)
    if any(c.base is not None for v in (left, right) for c in v.cases):
        return UNKNOWN
    if predicate.startswith("u"):
        less, more = (right, left) if predicate[1] == "g" else (left, right)
        if not _is_nonneg(kernel, more):
            return UNKNOWN
        if not _is_nonneg(kernel, less):
            # Without a sign what is below 0 is above all that is not.
            reached = compare("ge", more, less)
            if predicate[2] == "t":
                reached = negated(compare("ge", less, more))
            return Logic("and", (compare("ge", less, number(0)), reached))
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
