"""Values that loops carry from iteration to iteration: their growth, and bounds that are preserved.

A carried value that grows by the same amount in each iteration is an expression over the iteration
number (`growths`). For other values, bounds may hold in every iteration, as for both ends of a
binary search (`kept_bounds`). A candidate for such a bound states that a carried integer is at
least, or at most, one of these: 0, the value of a carried integer before the loop, or the first or
last value of the counter. Candidates that do not hold before the loop are dropped. Then each
candidate must be proved to hold at the end of an iteration if all remaining candidates hold at its
start; otherwise it is dropped. This step is repeated until no candidate is dropped. The remaining
bounds then hold in every iteration, by induction.
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
    """The growth of a value that grows by the same amount in each iteration.

    Attributes:
        step: The amount that is added in each iteration.
        needs: Obligations under which the machine integers grow by this amount.
        producer: The operation that adds the step; None if the value does not change.
    """

    step: Expr
    needs: Needs
    producer: Operation | None

    def after(self, start: Number, k: Expr, space: Space, shown: Needs = NO_NEEDS) -> Number:
        """Return the value after `k` iterations.

        The value is monotone in `k`, so its obligation after `k` iterations covers all earlier
        iterations.

        Args:
            start: The value before the loop.
            k: The number of iterations.
            space: The sizes and symbols.
            shown: Obligations that are known to be met.
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
    """Return the growth of the carried values that grow by equal steps, by position.

    Args:
        outcome: The values after one iteration that starts with `symbols`.
        producers: The values in the kernel's IR whose symbolic values are `outcome`.
        symbols: Symbols that stand for carried values, by position.
        starts: The values before the loop.
        newest: Order of the newest symbol that existed before this iteration.
        k: The number of the iteration.
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

    result: dict[int, Growth] = {}
    for n, (change, case) in changes.items():
        producer = producers[n].defining_op
        # This obligation is left out, because `Growth.after` adds the obligation of the last
        # addition for all iterations at once.
        others = [e for e in case.needs if not (e.op is producer and e.expr == case.value)]
        needs = [Need(e.op, substitute(e.expr, same), e.low, e.high, e.kind) for e in others]
        step = substitute(change, same)
        if is_fixed(step) and all(is_fixed(e.expr) for e in needs):
            result[n] = Growth(step, frozenset(needs), producer)
    return result


def _varies(symbol: Symbol, newest: int) -> bool:
    return symbol.order > newest and symbol.kind in ("data", "iteration")


def inductive(
    space: Space, needs: Needs, facts: Sequence[Fact], around: Sequence[Expr], k: Symbol
) -> Needs:
    """Return the obligations of iteration `k` that follow, for all `k`, from the one before.

    The values of the first iteration are those before the loop. For a later iteration, the loop's
    condition was true for the values of the previous iteration, provided that these values were
    exact. This has to imply the obligations of iteration `k`.

    Args:
        space: The sizes and symbols.
        needs: Obligations of carried values at the start of iteration `k`.
        facts: Facts about the carried values that the loop's condition implies.
        around: Facts that hold outside the loop.
        k: The number of the iteration.
    """
    before = {k: as_expr(k) - 1}
    shown = needs
    while shown:
        premises = [substitute(f.expr, before) for f in facts if f.needs <= shown]
        premises += [*around, as_expr(k) - 1]
        left = frozenset(n for n in shown if all(space.nonneg(g, premises) for g in n.goals))
        if left == shown:
            break
        shown = left
    return shown


#: Maximum number of carried integers that are considered. The number of candidate bounds grows with
#: the square of the number of integers.
_MOST_CARRIED = 6


@dataclass(frozen=True)
class Bound:
    """A bound `sign * (value - end) >= 0`: a lower bound for sign 1, an upper bound for sign -1."""

    sign: int
    end: Expr

    def of(self, value: Expr) -> Expr:
        """Return an expression that is at least 0 if and only if the bound holds for a value."""
        return self.sign * (value - self.end)


#: Bounds of carried values, by position.
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
    """Return the bounds that hold before a loop and that each iteration preserves.

    Args:
        space: The sizes and symbols.
        symbols: Symbols that stand for carried integers at the start of an iteration.
        starts: The values before the loop.
        outcome: The values after an iteration that starts with `symbols`.
        outside: Facts that hold before the loop.
        facts: Facts that hold in the iteration.
        others: Further expressions that may be bounds, such as the ends of the counter.
    """
    begin = {n: _plain(starts[n]) for n in symbols}
    initial = {n: start for n, start in begin.items() if start is not None}
    if not 0 < len(initial) <= _MOST_CARRIED:
        return {}
    around = [f.expr for f in outside if not f.needs]
    ends = dict.fromkeys((ZERO, *initial.values(), *others))
    bounds: Bounds = {}
    for n, start in initial.items():
        possible = [Bound(sign, end) for end in ends for sign in (1, -1)]
        bounds[n] = [b for b in possible if space.nonneg(b.of(start), around)]
    while any(bounds.values()):
        premises = [
            b.of(as_expr(symbols[n])) for n, candidates in bounds.items() for b in candidates
        ]
        left = {
            n: _kept(space, candidates, outcome[n], facts, premises)
            for n, candidates in bounds.items()
        }
        if left == bounds:
            break
        bounds = left
    return bounds


def _plain(start: AnyValue) -> Expr | None:
    """Return the expression of an integer that has no conditions or obligations; otherwise None."""
    if not isinstance(start, Number) or start.single is None:
        return None
    (case,) = start.cases
    return None if case.needs or case.base is not None else case.value


def _kept(
    space: Space, bounds: list[Bound], value: AnyValue, facts: Sequence[Fact], premises: list[Expr]
) -> list[Bound]:
    if not bounds or not isinstance(value, Number):
        return []
    for case in value.cases:
        usable, missing = discharged((*facts, *case.when), case.needs, space.nonneg, premises)
        if missing:
            return []  # the machine integer may have any value
        bounds = [b for b in bounds if space.nonneg(b.of(case.value), usable)]
    return bounds
