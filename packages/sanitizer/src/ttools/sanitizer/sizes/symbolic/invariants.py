"""Bounds of what a loop carries that hold in every iteration, as of both ends of a binary search.

Candidates are that a carried integer is not below, or not above, what one of them was before the
loop, or the first or last value of the counter. Those that do not hold there go; then, again and
again, those that an iteration is not shown to keep where all that are left hold before it. Must
not know operations nor control flow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ttools.interpreter.ir.expr import ZERO, Expr, Symbol, as_expr
from ttools.sanitizer.sizes.algebra.proofs import Space
from ttools.sanitizer.sizes.symbolic.needs import discharged
from ttools.sanitizer.sizes.symbolic.values import AnyValue, Fact, Number

#: So many integers are looked at; each may be bounded by the start of each.
_MOST_CARRIED = 6


@dataclass(frozen=True)
class Bound:
    """`sign * (value - end) >= 0`."""

    sign: int
    end: Expr

    def of(self, value: Expr) -> Expr:
        """What is at least 0 where it holds of a value."""
        return self.sign * (value - self.end)


#: What holds of carried values, by position.
Bounds: TypeAlias = "dict[int, list[Bound]]"


def kept_bounds(
    space: Space,
    symbols: Mapping[int, Symbol],
    starts: Sequence[AnyValue],
    outcome: Sequence[AnyValue],
    outside: Sequence[Fact],
    facts: Sequence[Fact],
    others: Sequence[Expr] = (),
) -> Bounds:
    """The bounds that hold before a loop, whether or not it runs, and that each iteration keeps.

    Args:
        space: the sizes and symbols.
        symbols: what stands for carried integers at the start of an iteration, by position.
        starts: the values before the loop.
        outcome: what the iteration makes of `symbols`.
        outside: what holds before the loop.
        facts: what holds in the iteration.
        others: what else may bound them, as ends of the counter do.
    """
    begin = {n: _plain(starts[n]) for n in symbols}
    known = {n: start for n, start in begin.items() if start is not None}
    if not 0 < len(known) <= _MOST_CARRIED:
        return {}
    around = [f.expr for f in outside if not f.needs]
    ends = dict.fromkeys((ZERO, *known.values(), *others))
    bounds: Bounds = {}
    for n, start in known.items():
        possible = [Bound(sign, end) for end in ends for sign in (1, -1)]
        bounds[n] = [b for b in possible if space.nonneg(b.of(start), around)]
    while any(bounds.values()):
        given = [b.of(as_expr(symbols[n])) for n, found in bounds.items() for b in found]
        left = {n: _kept(space, found, outcome[n], facts, given) for n, found in bounds.items()}
        if left == bounds:
            break
        bounds = left
    return bounds


def _plain(start: AnyValue) -> Expr | None:
    """A number that needs nothing and holds always."""
    if not isinstance(start, Number) or start.single is None:
        return None
    (case,) = start.cases
    return None if case.needs or case.base is not None else case.value


def _kept(
    space: Space, bounds: list[Bound], value: AnyValue, facts: Sequence[Fact], given: list[Expr]
) -> list[Bound]:
    if not bounds or not isinstance(value, Number):
        return []
    for case in value.cases:
        usable, missing = discharged((*facts, *case.when), case.needs, space.nonneg, given)
        if missing:
            return []  # the machine integer may be any
        bounds = [b for b in bounds if space.nonneg(b.of(case.value), usable)]
    return bounds
