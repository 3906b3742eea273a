"""What loops carry from iteration to iteration: how it grows, and what their conditions show of it.

Must not know operations nor control flow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ttools.interpreter.ir import Operation, Value
from ttools.interpreter.ir.expr import Expr, Symbol, as_expr, substitute
from ttools.sanitizer.sizes.algebra.proofs import Space
from ttools.sanitizer.sizes.attributes import width_of
from ttools.sanitizer.sizes.symbolic.values import (
    NO_NEEDS,
    AnyValue,
    Case,
    Fact,
    Need,
    Needs,
    Number,
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
