"""Sets of sizes for which host code goes the same way: boxes, a remainder, and what else is known.

Owns how the conditions of a path become bounds.
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
    """The sizes that meet all conditions of a path.

    Attributes:
        box: first and last value of each size; all that meet the conditions are in it.
        steps: of sizes that have one remainder: divisor and remainder.
        left: the conditions that box and steps do not say.
    """

    box: Box
    conditions: Sequence[Condition]
    steps: dict[Symbol, tuple[int, int]] = field(default_factory=dict)
    left: list[Condition] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return any(low > high for low, high in self.box.values())

    def holds(self, point: Point) -> bool:
        """Whether sizes go this way."""
        inside = all(low <= point[s] <= high for s, (low, high) in self.box.items())
        return inside and all(c.holds(point) for c in self.conditions)

    def points(self) -> Iterator[Point]:
        """Sizes in it, small ones and the largest first; not all."""
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
        """Whether `points` tries all of its box."""
        most = _TRIED if len(self.box) == 1 else _TRIED_OF_SEVERAL
        return all(high - low < most for low, high in self.box.values())

    # ---- for proofs
    def substitution(self) -> dict[Symbol, Expr]:
        """Sizes with a remainder by the number of whole steps in them, those of one value by it."""
        new = {
            s: as_expr(_counter(s, step)) * step + rest for s, (step, rest) in self.steps.items()
        }
        return new | {s: as_expr(low) for s, (low, high) in self.box.items() if low == high}

    def space(self, box: Mapping[Symbol, tuple[int, int]] | None = None) -> Space | None:
        """The sizes of a part of it, for proofs; None if there are none."""
        found: Box = {}
        for symbol, (low, high) in (self.box if box is None else box).items():
            if symbol in self.steps:
                step, rest = self.steps[symbol]
                low, high = -(-(low - rest) // step), (high - rest) // step
                symbol = _counter(symbol, step)
            if low > high:
                return None
            found[symbol] = (low, high)
        space = Space(found)
        new = self.substitution()
        for condition in self.left:
            expr = substitute(condition.expr, new)
            if expr.constant is not None and not Condition(
                expr, condition.relation, condition.answer
            ).holds({}):
                return None  # what was left of the sizes is of one value each
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
    """The sizes of a box that meet conditions."""
    found = Region(dict(box), tuple(conditions))
    pending = list(conditions)
    # Bounds may let what comes before them be seen as bounds, too.
    for _ in range(3):
        left = [c for c in pending if not _bounded(found, c)]
        if left == pending or found.is_empty:
            break
        pending = left
    found.left = [c for c in pending if not _settled(found, c)]
    return found


def _settled(found: Region, condition: Condition) -> bool:
    """Whether a condition holds on the whole box anyway."""
    if found.is_empty:
        return True
    low, high = Space(found.box).range(condition.expr)
    if condition.relation == "ge":
        return low is not None and low >= 0 if condition.answer else high is not None and high < 0
    apart = (low is not None and low > 0) or (high is not None and high < 0)
    return apart and not condition.answer


def _bounded(found: Region, condition: Condition) -> bool:
    """Takes a condition into box or steps; whether nothing of it is left."""
    symbols = condition.expr.base_symbols()
    if found.is_empty:
        return False
    if len(symbols) > 1:
        return _is_one(found, condition)
    if not symbols:
        return False
    (symbol,) = symbols
    if _remainder(found, condition, symbol):
        return True
    low, high = found.box[symbol]
    sign = _direction(condition.expr, Space(found.box))
    if not sign:
        return False

    def value(n: int) -> int:
        return sign * int(evaluate(condition.expr, {symbol: n}))

    # `value` never falls: where it reaches 0, and where it exceeds it.
    zero, above = _first(value, low, high, 0), _first(value, low, high, 1)
    if condition.relation == "ge":
        # expr >= 0 is value >= 0 or, where it is turned round, value <= 0.
        if sign > 0:
            found.box[symbol] = (zero, high) if condition.answer else (low, zero - 1)
        else:
            found.box[symbol] = (low, above - 1) if condition.answer else (above, high)
        return True
    if condition.answer:
        found.box[symbol] = (zero, above - 1)
        return True
    if zero >= above:
        return True  # it is 0 nowhere
    if zero == low:
        found.box[symbol] = (above, high)
    elif above == high + 1:
        found.box[symbol] = (low, zero - 1)
    else:
        return False
    return True


def _is_one(found: Region, condition: Condition) -> bool:
    """Takes a product of sizes that is 1: each of them is."""
    factors = next((m for m in condition.expr.terms if m), ())
    product = {factors: 1, (): -1} == dict(condition.expr.terms)
    if not (product and condition.relation == "eq" and condition.answer):
        return False
    if not all(s in found.box and found.box[s][0] >= 0 for s in factors):
        return False
    for symbol in factors:
        low, high = found.box[symbol]
        found.box[symbol] = (max(low, 1), min(high, 1))
    return True


def _first(value: object, low: int, high: int, least: int) -> int:
    """The first number of a range at which a function that never falls is at least `least`."""
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
    """1 if a polynomial of one size never falls, -1 if it never rises, 0 if that is not seen."""
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


def _remainder(found: Region, condition: Condition, symbol: Symbol) -> bool:
    """Takes `(n + a) % c == r`."""
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
    _step(found, symbol, divisor, (sign * (wanted - offset)) % divisor)
    return True


def _step(found: Region, symbol: Symbol, divisor: int, rest: int) -> None:
    """Takes `n % divisor == rest` beside another remainder that is known."""
    known, before = found.steps.get(symbol, (1, 0))
    common = math.gcd(known, divisor)
    if (rest - before) % common:
        found.box[symbol] = (1, 0)  # no size has both
        return
    # before + known * k has the remainder `rest` for one k below divisor // common.
    inverse = pow(known // common, -1, divisor // common)
    k = (rest - before) // common * inverse % (divisor // common)
    step = known * (divisor // common)
    found.steps[symbol] = (step, (before + known * k) % step)
