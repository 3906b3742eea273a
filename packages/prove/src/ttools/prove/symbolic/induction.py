"""What loops carry from iteration to iteration: how it grows, and which bounds it keeps.

A carried value that grows by the same amount in each iteration is an expression of the iteration
(`growths`). Of others bounds may hold in every iteration, as of both ends of a binary search
(`kept_bounds`). Candidates are that a carried integer is not below, or not above, what one of them
was before the loop, or the first or last value of the counter. Those that do not hold there go;
then, again and again, those that an iteration is not shown to keep where all that are left hold
before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ttools.ir import Operation, Value
from ttools.ir.expr import ZERO, Expr, Symbol, as_expr, substitute
from ttools.prove.algebra.proofs import Space
from ttools.prove.attributes import width_of
from ttools.prove.symbolic.values import (
    NO_NEEDS,
    AnyValue,
    Case,
    Fact,
    Need,
    Needs,
    Number,
    discharged,
)


@dataclass(frozen=True)
class Growth:
    """A value that grows by the same amount in each iteration.

    Attributes:
        needs: what it takes that this is it.
        producer: the operation that adds it; None where nothing does.
    """

    step: Expr
    needs: Needs
    producer: Operation | None

    def after(self, start: Number, k: Expr, space: Space, shown: Needs = NO_NEEDS) -> Number:
        """The value after `k` iterations.

        As it is monotone in `k`, its need there covers the iterations before.

        Args:
            start: the value before the loop.
            k: how many.
            space: the sizes and symbols.
            shown: needs that are known to be met.
        """
        if not self.step.terms and not self.needs:
            return start
        cases = []
        for case in start.cases:
            value, needs = case.value + self.step * k, case.needs | self.needs
            if case.base is None and self.producer is not None and self.step.terms:
                half = 1 << (width_of(self.producer.results[0]) - 1)
                need = Need(self.producer, value, -half, half - 1)
                if need not in shown and not space.within(value, need.low, need.high):
                    needs = needs | {need}
            cases.append(Case(value, case.when, needs, case.base))
        return Number(tuple(cases))


def growths(
    outcome: Sequence[AnyValue],
    producers: Sequence[Value],
    symbols: Mapping[int, Symbol],
    starts: Sequence[AnyValue],
    newest: int,
    k: Symbol,
) -> dict[int, Growth]:
    """How carried values grow, where that is the same in all iterations.

    Args:
        outcome: what one iteration makes of `symbols`.
        producers: the same as values of the kernel.
        symbols: what stands for carried values, by position.
        starts: the values before the loop.
        newest: the order of the newest symbol that was there before this iteration.
        k: the number of the iteration.
    """
    changes: dict[int, tuple[Expr, Case]] = {}
    for n, symbol in symbols.items():
        value, start = outcome[n], starts[n]
        if not isinstance(value, Number) or len(value.cases) != 1 or value.cases[0].when:
            continue
        (case,) = value.cases
        bases = {c.base for c in start.cases} if isinstance(start, Number) else set()
        if bases == {case.base}:
            changes[n] = case.value - as_expr(symbol), case
    same: dict[Symbol, Expr] = {}
    for n, (change, case) in changes.items():
        start = starts[n]
        single = start.single if isinstance(start, Number) else None
        if not change.terms and not case.needs and single is not None:
            assert isinstance(start, Number)
            if not start.cases[0].needs:
                same[symbols[n]] = single
    own = set(symbols.values())

    def is_fixed(expr: Expr) -> bool:
        inside = expr.base_symbols()
        return not (k in inside or inside & own or any(_varies(s, newest) for s in inside))

    found: dict[int, Growth] = {}
    for n, (change, case) in changes.items():
        producer = producers[n].defining_op
        # That of the last addition is said anew for all iterations at once.
        others = [e for e in case.needs if not (e.op is producer and e.expr == case.value)]
        needs = [Need(e.op, substitute(e.expr, same), e.low, e.high, e.kind) for e in others]
        step = substitute(change, same)
        if is_fixed(step) and all(is_fixed(e.expr) for e in needs):
            found[n] = Growth(step, frozenset(needs), producer)
    return found


def _varies(symbol: Symbol, newest: int) -> bool:
    return symbol.order > newest and symbol.kind in ("data", "iteration")


def inductive(
    space: Space, needs: Needs, facts: Sequence[Fact], around: Sequence[Expr], k: Symbol
) -> Needs:
    """Those needs of iteration `k` that what held in the iteration before shows, for all `k`.

    In the first iteration values are what they were before the loop. If those before had exact
    values, the condition was true of them, and with that the needs of `k` are to be shown.

    Args:
        space: the sizes and symbols.
        needs: of carried values at the start of iteration `k`.
        facts: what the condition says of them.
        around: what holds outside of the loop.
        k: the number of the iteration.
    """
    before = {k: as_expr(k) - 1}
    shown = needs
    while shown:
        known = [substitute(f.expr, before) for f in facts if f.needs <= shown]
        known += [*around, as_expr(k) - 1]
        left = frozenset(n for n in shown if all(space.nonneg(g, known) for g in n.goals))
        if left == shown:
            break
        shown = left
    return shown


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
