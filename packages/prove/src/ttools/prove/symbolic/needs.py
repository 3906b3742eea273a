"""Which facts may be used, and which needs are met: each waits for those that it rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from ttools.ir.expr import Expr
from ttools.prove.symbolic.values import Fact, Need

#: Whether a polynomial is shown to be at least 0 where others are.
Shows: TypeAlias = "Callable[[Expr, Sequence[Expr]], bool]"


def discharged(
    facts: Iterable[Fact], needs: Iterable[Need], shows: Shows, known: Sequence[Expr] = ()
) -> tuple[list[Expr], list[Need]]:
    """The facts that may be used, and the needs that are not shown to be met.

    A fact may be used once all that it needs is shown, by facts that may be used before it.

    Args:
        facts: what may hold.
        needs: what is asked for.
        shows: whether facts show a goal.
        known: what is at least 0 in any case.
    """
    waiting = list(dict.fromkeys(facts))
    usable = [*known]
    met: set[Need] = set()
    missing = list(dict.fromkeys(needs))
    progress = True
    while progress:
        progress = False
        for fact in [*waiting]:
            if all(n in met for n in fact.needs):
                waiting.remove(fact)
                usable.append(fact.expr)
                progress = True
        pending = dict.fromkeys([*missing, *(n for f in waiting for n in f.needs)])
        for need in pending:
            if need not in met and all(shows(goal, usable) for goal in need.goals):
                met.add(need)
                progress = True
        missing = [n for n in missing if n not in met]
        if not waiting and not missing:
            break
    return usable, missing
