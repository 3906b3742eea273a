"""Integer operations at all sizes, as expressions computed from the declarations of operations.

An operation of `ttools.ir.dialects` declares its exact result as a sequence of elementary steps
(sums, quotients, `unsigned`). `ExpressionIntegers` computes each step for all sizes at once.
Machine integers give the same result if it fits in its type. That it fits is an obligation, unless
this follows from the widths of the operands or from intervals.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ttools.ir import IntegerType, Operation, PointerType, Value, element_type, shape_of
from ttools.ir.combining import combined_by
from ttools.ir.dialects.integers import Integers, UnknownError
from ttools.ir.dialects.traits import SPREADS
from ttools.ir.expr import ZERO, Expr, as_expr, floordiv, maximum, minimum, modulo
from ttools.ir.semantics import meaning
from ttools.prove.attributes import width_of
from ttools.prove.symbolic.state import State
from ttools.prove.symbolic.values import (
    NO_NEEDS,
    TRUE,
    AnyValue,
    Case,
    Fact,
    Logic,
    Need,
    Number,
    Opaque,
    alternatives,
    compare,
    facts_of,
    joined,
    moved_copy,
    needs_of,
    negated,
    number,
)
from ttools.prove.symbolic.views import exchanged

#: Maximum number of cases of a quotient for which the signs of the dividend are treated as separate
#: cases.
_MOST_BY_SIGN = 4
#: Maximum number of cases of a selected value; with more cases, the value is unknown.
_MOST_CHOSEN = 8


@dataclass(frozen=True)
class _Term:
    """An intermediate result.

    Attributes:
        bits: Width of a signed integer that can represent the number, if the operands are correct;
            None if the width is unknown.
        source: The operand of the operation, if the term is an operand.
        assumed: True if some case is correct only if the number is not negative.
    """

    value: AnyValue
    bits: int | None = None
    source: Value | None = None
    assumed: bool = False


class ExpressionIntegers(Integers[_Term]):
    """Arithmetic on expressions, in which a number may have several cases."""

    def __init__(self, kernel: State, op: Operation) -> None:
        self._kernel, self._op, self._fresh_numbers = kernel, op, 0

    def operand(self, value: Value) -> _Term:
        """Return the symbolic value of an operand."""
        kind = element_type(value.type)
        if not isinstance(kind, (IntegerType, PointerType)):
            return _Term(self._kernel.get(value))
        width = width_of(value)
        content = self._kernel.logic(value) if width == 1 else self._kernel.number(value)
        return _Term(content, max(2, width), value)

    def _number(self, term: _Term) -> Number:
        """Return a term as an integer; conditions become 0 and 1."""
        value = term.value
        if isinstance(value, Logic) and term.source is not None:
            value = self._kernel.from_logic(value, term.source)
        if not isinstance(value, Number) or any(case.base is not None for case in value.cases):
            raise UnknownError
        return value

    def _fresh(self, low: int, high: int) -> _Term:
        """Return a number for which only the range is known."""
        self._fresh_numbers += 1
        name = "data" if self._fresh_numbers == 1 else f"data{self._fresh_numbers}"
        value = self._kernel.unknown(self._op.results[0], low, high, name)
        return _Term(value, max(low.bit_length(), high.bit_length()) + 1)

    def _of_both(
        self, function: Callable[[Expr, Expr], Expr], a: _Term, b: _Term, bits: int | None
    ) -> _Term:
        """Apply a function to all combinations of the operands' cases."""
        pairs = joined(self._number(a), self._number(b))
        if pairs is None:
            raise UnknownError
        cases = [
            Case(function(p.value, q.value), facts_of((p, q)), needs_of((p, q))) for p, q in pairs
        ]
        return _Term(Number(tuple(cases)), bits, assumed=a.assumed or b.assumed)

    def _shift(self, by: _Term) -> int:
        """Return the number of bits by which an operand is shifted, which must be a constant."""
        expr = self._number(by).single
        amount = None if expr is None else expr.constant
        if amount is None or not 0 <= amount <= 64:
            raise UnknownError
        return amount

    def constant(self, number_: int) -> _Term:
        return _Term(number(number_), number_.bit_length() + 1)

    def coordinate(self, axis: int, extent: int) -> _Term:
        return _Term(number(self._kernel.lane(axis, extent)), extent.bit_length() + 1)

    def program(self, axis: int) -> _Term:
        return _Term(number(self._kernel.programs[axis]), 32)

    def programs(self, axis: int) -> _Term:
        return _Term(number(self._kernel.launch.grid[axis]), 32)

    def add(self, a: _Term, b: _Term) -> _Term:
        return self._of_both(operator.add, a, b, _more(_most(a, b), 1))

    def subtract(self, a: _Term, b: _Term) -> _Term:
        return self._of_both(operator.sub, a, b, _more(_most(a, b), 1))

    def multiply(self, a: _Term, b: _Term) -> _Term:
        _require_signs(a, b)
        bits = None if a.bits is None or b.bits is None else a.bits + b.bits
        return self._of_both(operator.mul, a, b, bits)

    def shift_left(self, a: _Term, by: _Term) -> _Term:
        amount = self._shift(by)
        return self._of_both(lambda p, _: p * (1 << amount), a, by, _more(a.bits, amount))

    def shift_right(self, a: _Term, by: _Term) -> _Term:
        _require_signs(a)
        divisor, dividend = as_expr(1 << self._shift(by)), self._number(a)
        cases = [Case(floordiv(c.value, divisor), c.when, c.needs) for c in dividend.cases]
        return _Term(Number(tuple(cases)), a.bits)

    def _facts(self, *cases: Case) -> list[Expr]:
        facts = (*facts_of(cases), *self._kernel.context)
        return [fact.expr for fact in facts if not fact.needs]

    def _divided(
        self, function: Callable[[Expr, Expr], Expr], a: _Term, b: _Term, bits: int | None
    ) -> _Term:
        """Return a quotient rounded towards 0, or the remainder, for a positive divisor.

        For a negative dividend `p`, the result is that for `-p` with the opposite sign.
        """
        pairs = joined(self._number(a), self._number(b))
        if pairs is None:
            raise UnknownError
        cases: list[Case] = []
        nonneg = self._kernel.space.nonneg
        by_sign = 2 * len(pairs) <= _MOST_BY_SIGN
        for p, d in pairs:
            facts = self._facts(p, d)
            if not nonneg(d.value - 1, facts):
                raise UnknownError
            needs, when = needs_of((p, d)), facts_of((p, d))
            if nonneg(p.value, facts):
                value = function(p.value, d.value)
                if nonneg(d.value - 1 - p.value, facts):
                    value = p.value if function is modulo else ZERO
                cases.append(Case(value, when, needs))
            elif by_sign and not a.assumed:
                below = -function(-p.value, d.value)
                cases += [
                    Case(function(p.value, d.value), (*when, Fact(p.value, p.needs)), needs),
                    Case(below, (*when, Fact(-1 - p.value, p.needs)), needs),
                ]
            else:
                half = 1 << (self._op.operand_bits - 1)
                needs = needs | {Need(self._op, p.value, 0, half - 1, "model")}
                cases.append(Case(function(p.value, d.value), when, needs))
        return _Term(Number(tuple(cases)), bits)

    def quotient(self, a: _Term, b: _Term) -> _Term:
        return self._divided(floordiv, a, b, a.bits)

    def remainder(self, a: _Term, b: _Term) -> _Term:
        return self._divided(modulo, a, b, _most(a, b))

    def _rounded(self, function: Callable[[Expr, Expr], Expr], a: _Term, b: _Term) -> _Term:
        """Return a quotient that `function` rounds up or down, for a positive divisor."""
        nonneg = self._kernel.space.nonneg
        divisors = self._number(b).cases
        if not all(nonneg(case.value - 1, self._facts(case)) for case in divisors):
            raise UnknownError
        return self._of_both(function, a, b, a.bits)

    def floor_quotient(self, a: _Term, b: _Term) -> _Term:
        return self._rounded(floordiv, a, b)

    def ceiling_quotient(self, a: _Term, b: _Term) -> _Term:
        return self._rounded(lambda p, d: -floordiv(-p, d), a, b)

    def _extreme(self, function: Callable[[Expr, Expr], Expr], a: _Term, b: _Term) -> _Term:
        _require_signs(a, b)

        def chosen(p: Expr, q: Expr) -> Expr:
            low, high = self._kernel.space.range(p - q)
            less, more = (p, q) if high is not None and high <= 0 else (q, p)
            if less is q and (low is None or low < 0):
                return function(p, q)
            return less if function is minimum else more

        return self._of_both(chosen, a, b, _most(a, b))

    def least(self, a: _Term, b: _Term) -> _Term:
        return self._extreme(minimum, a, b)

    def greatest(self, a: _Term, b: _Term) -> _Term:
        return self._extreme(maximum, a, b)

    def bits_and(self, a: _Term, b: _Term) -> _Term:
        if isinstance(a.value, Logic) and isinstance(b.value, Logic):
            return _Term(Logic("and", (a.value, b.value)))
        left, right = self._number(a), self._number(b)
        for value, mask, term in ((left, right, a), (right, left, b)):
            bits = None if mask.single is None else mask.single.constant
            if bits is None or len(value.cases) != 1:
                continue
            (case,) = value.cases
            needs = case.needs | mask.cases[0].needs
            if (
                bits < 0 and -bits & (-bits - 1) == 0
            ):  # the mask clears the lowest bits; the number may be negative
                cleared = case.value - modulo(case.value, as_expr(-bits))
                return _Term(Number((Case(cleared, case.when, needs),)), term.bits)
            if bits >= 0 and bits & (bits + 1) == 0:
                low = self._kernel.space.range(case.value)[0]
                if low is not None and low >= 0:
                    kept = modulo(case.value, as_expr(bits + 1))
                    return _Term(Number((Case(kept, case.when, needs),)), bits.bit_length() + 1)
        singles = [v.single.constant for v in (left, right) if v.single is not None]
        bits = next((constant for constant in singles if constant is not None), None)
        if bits is None or bits < 0:
            raise UnknownError
        return self._fresh(0, bits)

    def bits_or(self, a: _Term, b: _Term) -> _Term:
        if isinstance(a.value, Logic) and isinstance(b.value, Logic):
            return _Term(Logic("or", (a.value, b.value)))
        return self._put_together(a, b)

    def bits_xor(self, a: _Term, b: _Term) -> _Term:
        if isinstance(a.value, Logic) and isinstance(b.value, Logic):
            for condition, flips in ((a.value, b.value), (b.value, a.value)):
                if flips.kind == "true":
                    return _Term(negated(condition))
            raise UnknownError
        for term, other in ((a, b), (b, a)):
            axis = _exchanged_axis(term.source, other.source)
            if axis is not None and term.source is not None:
                return _Term(exchanged(self._kernel, term.source, axis), term.bits)
        for term, other in ((a, b), (b, a)):
            mask = self._number(other).single
            bits = None if mask is None else mask.constant
            if bits is not None:
                cases = self._number(term).cases
                flipped = tuple(replace(c, value=_flipped(c.value, bits)) for c in cases)
                return _Term(Number(flipped), _most(a, b))
        return self._put_together(a, b)

    def _put_together(self, a: _Term, b: _Term) -> _Term:
        """Return the bitwise OR of numbers that have no set bits in common, which is their sum."""
        for p, q in joined(self._number(a), self._number(b)) or ():
            if not (self._is_below(p.value, q.value) or self._is_below(q.value, p.value)):
                raise UnknownError
        return self._of_both(operator.add, a, b, _most(a, b))

    def _is_below(self, high: Expr, low: Expr) -> bool:
        """Return whether `high` is a multiple of a power of 2 that is above `low`."""
        first, last = self._kernel.space.range(low)
        if first is None or first < 0 or last is None:
            return False
        return all(factor % (1 << last.bit_length()) == 0 for factor in high.terms.values())

    def choose(self, condition: _Term, a: _Term, b: _Term) -> _Term:
        if not isinstance(condition.value, Logic):
            raise UnknownError
        chosen = condition.value
        if isinstance(a.value, Logic) and isinstance(b.value, Logic):
            one = Logic("and", (chosen, a.value))
            return _Term(Logic("or", (one, Logic("and", (negated(chosen), b.value)))))
        if isinstance(a.value, Opaque) and isinstance(b.value, Opaque):
            return _Term(Opaque(False))
        cases = [
            Case(c.value, (*facts, *c.when), c.needs, c.base)
            for term, way in ((a, chosen), (b, negated(chosen)))
            for facts in alternatives(way)
            for c in (term.value if isinstance(term.value, Number) else self._number(term)).cases
        ]
        if not 0 < len(cases) <= _MOST_CHOSEN:
            raise UnknownError
        return _Term(Number(tuple(cases)), _most(a, b), assumed=a.assumed or b.assumed)

    def compare(self, predicate: str, a: _Term, b: _Term) -> _Term:
        if isinstance(a.value, Logic) or isinstance(b.value, Logic):
            raise UnknownError
        return _Term(self._compared(predicate, self._number(a), self._number(b)))

    def _compared(self, predicate: str, left: Number, right: Number) -> Logic:
        if predicate.startswith("u"):
            less, more = (right, left) if predicate[1] == "g" else (left, right)
            if not self._is_nonneg(more):
                raise UnknownError
            if not self._is_nonneg(less):
                # Read as unsigned, a negative number is larger than all nonnegative numbers.
                reached = compare("ge", more, less)
                if predicate[2] == "t":
                    reached = negated(compare("ge", less, more))
                return Logic("and", (compare("ge", less, number(0)), reached))
        relation = predicate.lstrip("su") if predicate not in ("eq", "ne") else predicate
        if relation in ("eq", "ne"):
            equal = compare("eq", left, right)
            return equal if relation == "eq" else negated(equal)
        if relation in ("gt", "lt"):
            one, other = (right, left) if relation == "gt" else (left, right)
            return negated(compare("ge", one, other))
        one, other = (left, right) if relation == "ge" else (right, left)
        return compare("ge", one, other)

    def _is_nonneg(self, value: Number) -> bool:
        lows = [self._kernel.space.range(case.value)[0] for case in value.cases]
        return all(low is not None and low >= 0 for low in lows)

    def unsigned(self, a: _Term, bits: int) -> _Term:
        if isinstance(a.value, Logic):
            return _Term(self._number(a), a.bits)
        cases: list[Case] = []
        widest, assumed = a.bits, a.assumed
        for case in self._number(a).cases:
            low = self._kernel.space.range(case.value)[0]
            is_nonneg = low is not None and low >= 0
            if is_nonneg or self._kernel.space.nonneg(case.value, self._facts(case)):
                cases.append(case)
            elif (fresh := self._without_sign(case, bits)) is not None:
                cases.append(fresh)
                widest = bits + 1
            else:
                need = Need(self._op, case.value, 0, (1 << (bits - 1)) - 1, "model")
                cases.append(replace(case, needs=case.needs | {need}))
                assumed = True
        return _Term(Number(tuple(cases)), widest, assumed=assumed)

    def _without_sign(self, case: Case, bits: int) -> Case | None:
        """Return the unsigned reading of a case that is unknown data of its type's full range.

        Returns:
            The case with the data read as unsigned; None if the case is something else.
        """
        half, space = 1 << (bits - 1), self._kernel.space
        symbols = case.value.symbols()
        (symbol,) = symbols if len(symbols) == 1 else (None,)
        if symbol is None or symbol.kind != "data" or case.value != as_expr(symbol) or case.needs:
            return None
        if space.range_of(symbol) != (-half, half - 1) or symbol in space.elements:
            return None
        copy = moved_copy(symbol, ("unsigned", bits))
        space.declare(copy, 0, 2 * half - 1)
        return replace(case, value=as_expr(copy))

    def signed(self, a: _Term, bits: int) -> _Term:
        if a.bits is not None and a.bits <= bits:
            return a
        half = 1 << (bits - 1)
        values = [case.value for case in self._number(a).cases]
        if not all(self._kernel.space.within(value, -half, half - 1) for value in values):
            raise UnknownError
        return replace(a, bits=bits)

    def displace(self, pointer: _Term, offset: _Term) -> _Term:
        if not isinstance(pointer.value, Number):
            raise UnknownError
        pairs = joined(pointer.value, self._number(offset))
        if pairs is None:
            raise UnknownError
        cases = [
            Case(p.value + n.value, facts_of((p, n)), needs_of((p, n)), p.base) for p, n in pairs
        ]
        return _Term(Number(tuple(cases)))


def computed(kernel: State, op: Operation) -> AnyValue | None:
    """Return the integer result that an operation declares; None if it is unknown."""
    if op.declaration.integer is None:
        return None
    domain = ExpressionIntegers(kernel, op)
    term = meaning(domain, op, [domain.operand(value) for value in op.operands])
    return None if term is None else _stored(kernel, op, term)


def _stored(kernel: State, op: Operation, term: _Term) -> AnyValue | None:
    """Return an exact number as the result of `op`, with the obligation to fit its type."""
    result, value = op.results[0], term.value
    if not isinstance(element_type(result.type), IntegerType):
        return value
    width = width_of(result)
    if isinstance(value, Number) and width == 1:
        single = value.single
        constant = None if single is None else single.constant
        if constant is None or value.cases[0].needs:
            return None
        return TRUE if constant & 1 else negated(TRUE)
    if isinstance(value, Logic):
        return value if width == 1 else kernel.from_logic(value, result)
    if not isinstance(value, Number) or (term.bits is not None and term.bits <= width):
        return value if isinstance(value, Number) else None
    return Number(tuple(replace(c, needs=c.needs | fits(kernel, op, c.value)) for c in value.cases))


def fits(kernel: State, op: Operation, expr: Expr) -> frozenset[Need]:
    """Return the obligation that an expression fits in a result's type.

    The set is empty if intervals prove that it fits.
    """
    half = 1 << (width_of(op.results[0]) - 1)
    if kernel.space.within(expr, -half, half - 1):
        return NO_NEEDS
    return frozenset({Need(op, expr, -half, half - 1)})


def _require_signs(*terms: _Term) -> None:
    """Reject numbers that are only assumed to be nonnegative.

    Products and shifts of such numbers occur in hash functions, for which the assumption is false.

    Raises:
        UnknownError: At least one number is only assumed to be nonnegative.
    """
    if any(term.assumed for term in terms):
        raise UnknownError


def _most(a: _Term, b: _Term) -> int | None:
    return None if a.bits is None or b.bits is None else max(a.bits, b.bits)


def _more(bits: int | None, by: int) -> int | None:
    return None if bits is None else bits + by


def _flipped(p: Expr, bits: int) -> Expr:
    """Return an expression for `p ^ bits`; both may be negative."""
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


class _ExclusiveOr(Integers[Any]):
    def bits_xor(self, a: Value, b: Value) -> bool:
        return True


def _exchanged_axis(value: Value | None, other: Value | None) -> int | None:
    """Return the axis whose two lanes `value ^ other` exchanges, as in `tl.flip`; else None."""
    made = None if other is None else other.defining_op
    if value is None or made is None or not made.operands:
        return None
    reached = shape_of(made.operands[0].type)
    while made is not None and made.has(SPREADS):
        made = made.operands[0].defining_op
    if made is None or combined_by(made) is None or made.operands[0] is not value:
        return None
    combine, axis, shape = made.regions[0].entry.operations[0], made.axis, shape_of(value.type)
    is_scan = shape_of(made.results[0].type) == shape
    if is_scan or meaning(_ExclusiveOr(), combine, combine.operands) is not True:
        return None
    kept = not reached or reached == (*shape[:axis], 1, *shape[axis + 1 :])
    return axis if shape[axis] == 2 and kept else None
