"""Sets of sizes for which host code takes the same path.

The conditions of a path are translated to a box (first and last value of each size) and to
remainders of sizes. Conditions that cannot be translated this way are kept in their original form.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ttools.ir.expr import (
    SIZE,
    Expr,
    Symbol,
    as_expr,
    evaluate,
    substitute,
)
from ttools.prove.algebra.proofs import Space
from ttools.prove.host.symbolic_numbers import Condition

Box: TypeAlias = "dict[Symbol, tuple[int, int]]"
Point: TypeAlias = "dict[Symbol, int]"
_TRIED = 80
_TRIED_OF_SEVERAL = 12


@dataclass
class Region:
    """The sizes that satisfy all conditions of a path.

    Attributes:
        box: First and last value of each size; it contains all sizes that satisfy the conditions.
        steps: For each size whose values all have the same remainder, `(divisor, remainder)`.
        left: The conditions that `box` and `steps` do not imply.
    """

    box: Box
    conditions: Sequence[Condition]
    steps: dict[Symbol, tuple[int, int]] = field(default_factory=dict)
    left: list[Condition] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return any(low > high for low, high in self.box.values())

    def holds(self, point: Point) -> bool:
        """Return whether sizes are in the region, so that host code takes this path for them."""
        inside = all(low <= point[s] <= high for s, (low, high) in self.box.items())
        return inside and all(c.holds(point) for c in self.conditions)

    def points(self) -> Iterator[Point]:
        """Iterate over some points of the region: small sizes first, and then the largest ones."""
        axes = []
        for symbol, (low, high) in self.box.items():
            step, rest = self.steps.get(symbol, (1, 0))
            first = low + (rest - low) % step
            last = high - (high - rest) % step
            near = range(first, min(high, first + _TRIED * step) + 1, step)
            some = [*near, *range(max(first, last - 8 * step), last + 1, step), (low + high) // 2]
            axes.append([v for v in dict.fromkeys(some) if low <= v <= high])
        if len(axes) > 1:
            axes = [axis[:_TRIED_OF_SEVERAL] + axis[-3:] for axis in axes]
        for values in itertools.product(*axes):
            point = dict(zip(self.box, values, strict=True))
            if self.holds(point):
                yield point

    @property
    def is_small(self) -> bool:
        """True if the box is so small that `points` considers all of it."""
        most = _TRIED if len(self.box) == 1 else _TRIED_OF_SEVERAL
        return all(high - low < most for low, high in self.box.values())

    # ---- for proofs
    def substitution(self) -> dict[Symbol, Expr]:
        """Return expressions that replace sizes in proofs.

        A size with a step and a remainder becomes `counter * step + remainder`; a size with a
        single value becomes that value.
        """
        new = {
            s: as_expr(_counter(s, step)) * step + rest for s, (step, rest) in self.steps.items()
        }
        return new | {s: as_expr(low) for s, (low, high) in self.box.items() if low == high}

    def space(self, box: Mapping[Symbol, tuple[int, int]] | None = None) -> Space | None:
        """Return a `Space` for the region, or for its part in `box`; None if that is empty."""
        counted: Box = {}
        for symbol, (low, high) in (self.box if box is None else box).items():
            if symbol in self.steps:
                step, rest = self.steps[symbol]
                low, high = -(-(low - rest) // step), (high - rest) // step
                symbol = _counter(symbol, step)
            if low > high:
                return None
            counted[symbol] = (low, high)
        space = Space(counted)
        new = self.substitution()
        for condition in self.left:
            expr = substitute(condition.expr, new)
            if expr.constant is not None and not Condition(
                expr, condition.relation, condition.answer
            ).holds({}):
                return None  # all of its sizes are fixed, and the condition is false for them
            if condition.relation == "ge":
                space.assumed.append(expr if condition.answer else -1 - expr)
            elif condition.answer:
                space.assumed += [expr, -expr]
        return space


_counters: dict[tuple[Symbol, int], Symbol] = {}


def _counter(symbol: Symbol, step: int) -> Symbol:
    if (symbol, step) not in _counters:
        _counters[symbol, step] = Symbol(f"{symbol.name}/{step}", "size", SIZE)
    return _counters[symbol, step]


def region(box: Box, conditions: Sequence[Condition]) -> Region:
    """Return the sizes of a box that satisfy conditions."""
    result = Region(dict(box), tuple(conditions))
    pending = list(conditions)
    # Once a condition is translated to a bound, earlier conditions may become translatable.
    for _ in range(3):
        before = dict(result.box)
        left = [c for c in pending if not _bounded(result, c)]
        if (left == pending and result.box == before) or result.is_empty:
            break
        pending = left
    result.left = [c for c in pending if not _settled(result, c)]
    return result


def _settled(where: Region, condition: Condition) -> bool:
    """Return whether a condition holds on the whole box."""
    if where.is_empty:
        return True
    low, high = Space(where.box).range(condition.expr)
    if condition.relation == "ge":
        return low is not None and low >= 0 if condition.answer else high is not None and high < 0
    apart = (low is not None and low > 0) or (high is not None and high < 0)
    return apart and not condition.answer


def _bounded(where: Region, condition: Condition) -> bool:
    """Translate a condition to the box or steps; return whether these now imply the condition."""
    symbols = condition.expr.base_symbols()
    if where.is_empty:
        return False
    if len(symbols) > 1:
        return _is_one(where, condition) or _below(where, condition)
    if not symbols:
        return False
    (symbol,) = symbols
    if _remainder(where, condition, symbol):
        return True
    low, high = where.box[symbol]
    sign = _direction(condition.expr, Space(where.box))
    if not sign:
        return False

    def value(n: int) -> int:
        return sign * int(evaluate(condition.expr, {symbol: n}))

    # `value` never decreases: find where it reaches 0, and where it exceeds 0.
    zero, above = _first(value, low, high, 0), _first(value, low, high, 1)
    if condition.relation == "ge":
        # `expr >= 0` is equivalent to `value >= 0` if the sign is positive, and to `value <= 0` if
        # it is negative.
        if sign > 0:
            where.box[symbol] = (zero, high) if condition.answer else (low, zero - 1)
        else:
            where.box[symbol] = (low, above - 1) if condition.answer else (above, high)
        return True
    if condition.answer:
        where.box[symbol] = (zero, above - 1)
        return True
    if zero >= above:
        return True  # the expression is never 0, so the condition always holds
    if zero == low:
        where.box[symbol] = (above, high)
    elif above == high + 1:
        where.box[symbol] = (low, zero - 1)
    else:
        return False
    return True


def _is_one(where: Region, condition: Condition) -> bool:
    """Translate the condition that a product of sizes is 1, which implies that each of them is 1.

    Returns:
        True if the condition has this form.
    """
    factors = next((m for m in condition.expr.terms if m), ())
    product = {factors: 1, (): -1} == dict(condition.expr.terms)
    if not (product and condition.relation == "eq" and condition.answer):
        return False
    if not all(s in where.box and where.box[s][0] >= 0 for s in factors):
        return False
    for symbol in factors:
        low, high = where.box[symbol]
        where.box[symbol] = (max(low, 1), min(high, 1))
    return True


def _below(where: Region, condition: Condition) -> bool:
    """Lower the last values of sizes, using a condition that is false for large sizes.

    If the condition is false for some value of one size and the first values of all other sizes, it
    is also false for this value and any values of the other sizes. The result is always False,
    because the box does not imply the condition.
    """
    symbols = condition.expr.base_symbols()
    is_limit = condition.relation == "ge" and condition.answer
    if not is_limit or _direction(condition.expr, Space(where.box)) != -1:
        return False
    first = {s: where.box[s][0] for s in symbols}
    for symbol in symbols:
        low, high = where.box[symbol]

        def excess(n: int, symbol: Symbol = symbol) -> int:
            return -int(evaluate(condition.expr, {**first, symbol: n}))

        where.box[symbol] = low, _first(excess, low, high, 1) - 1
        if where.is_empty:
            break
    return False


def _first(value: object, low: int, high: int, least: int) -> int:
    """Return the first number in a range for which a non-decreasing function is at least `least`.

    If there is none, the number after the range is returned.
    """
    assert callable(value)
    end = high + 1
    while low < end:
        middle = (low + end) // 2
        if value(middle) >= least:
            end = middle
        else:
            low = middle + 1
    return low


def _direction(expr: Expr, space: Space) -> int:
    """Return 1 for a non-decreasing expression, -1 for a non-increasing one, and otherwise 0."""
    signs = set()
    for monomial, factor in expr.terms.items():
        if not monomial:
            continue
        for symbol in monomial:
            low = space.range_of(symbol)[0]
            if len(monomial) > 1 and (low is None or low < 0):
                return 0
            if _rises(symbol, space) is not True:
                return 0
        signs.add(1 if factor > 0 else -1)
    return signs.pop() if len(signs) == 1 else 0


def _rises(symbol: Symbol, space: Space) -> bool:
    if not symbol.args:
        return True
    if symbol.kind in ("min", "max"):
        return all(a.constant is not None or _direction(a, space) == 1 for a in symbol.args)
    if symbol.kind == "floordiv":
        divisor = symbol.args[1].constant
        return divisor is not None and divisor > 0 and _direction(symbol.args[0], space) == 1
    return symbol.kind == "power_of_2" and _direction(symbol.args[0], space) == 1


def _remainder(where: Region, condition: Condition, symbol: Symbol) -> bool:
    """Translate `(n + a) % c == r` to steps; return whether the condition has this form."""
    if condition.relation != "eq" or not condition.answer:
        return False
    atoms = [(m, f) for m, f in condition.expr.terms.items() if m]
    if len(atoms) != 1 or len(atoms[0][0]) != 1 or abs(atoms[0][1]) != 1:
        return False
    (atom,), factor = atoms[0]
    if atom.kind != "mod":
        return False
    p, divisor = atom.args[0], atom.args[1].constant
    parts = p.linear_in(symbol)
    if divisor is None or parts is None or parts[0].constant not in (1, -1):
        return False
    offset, sign = parts[1].constant, parts[0].constant
    constant = condition.expr.terms.get((), 0)
    wanted = -constant * factor
    if offset is None or sign is None or not 0 <= wanted < divisor:
        return False
    _step(where, symbol, divisor, (sign * (wanted - offset)) % divisor)
    return True


def _step(where: Region, symbol: Symbol, divisor: int, rest: int) -> None:
    """Combine `n % divisor == rest` with the remainder of the size that is already known."""
    modulus, before = where.steps.get(symbol, (1, 0))
    common = math.gcd(modulus, divisor)
    if (rest - before) % common:
        where.box[symbol] = (1, 0)  # no size has both remainders
        return
    # There is exactly one k below divisor // common for which before + modulus * k has the
    # remainder `rest`.
    inverse = pow(modulus // common, -1, divisor // common)
    k = (rest - before) // common * inverse % (divisor // common)
    step = modulus * (divisor // common)
    where.steps[symbol] = (step, (before + modulus * k) % step)
