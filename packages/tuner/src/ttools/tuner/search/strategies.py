"""In which order configurations are tried.

A strategy is a generator: it yields candidates whose order does not matter to it, and is sent the
cost of each, None for those that cannot win. What it yields together can be compiled together. It
may use what was told of the candidates for other keys, and what compiling them tells. Must not know
what a cost is.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias

from ttools.core.errors import UsageError
from ttools.tuner.search.guided import Hint, Known, guided, no_hint
from ttools.tuner.space.candidate import Candidate

__all__ = [
    "STRATEGIES",
    "Hint",
    "Known",
    "Strategy",
    "descent",
    "exhaustive",
    "no_hint",
    "read_strategy",
    "shuffled",
]

Costs: TypeAlias = "list[float | None]"
Search: TypeAlias = Generator[Sequence[Candidate], Costs, None]
Strategy: TypeAlias = Callable[[Sequence[Candidate], int, Sequence[Known], Hint], Search]


def exhaustive(
    space: Sequence[Candidate], seed: int, others: Sequence[Known] = (), hint: Hint = no_hint
) -> Search:
    """All, in the order of the space."""
    if space:
        yield space


def shuffled(
    space: Sequence[Candidate], seed: int, others: Sequence[Known] = (), hint: Hint = no_hint
) -> Search:
    """All, in a random order."""
    if space:
        yield random.Random(seed).sample(list(space), len(space))


def descent(
    space: Sequence[Candidate], seed: int, others: Sequence[Known] = (), hint: Hint = no_hint
) -> Search:
    """From the first candidate that can win, along one parameter at a time to the best value.

    Ends where no change of a single parameter helps, and begins again at a random candidate that
    was not tried, until all are.
    """
    left = {each.key: each for each in space}
    order = random.Random(seed).sample(list(space), len(space))
    starts = [space[0], *order] if space else []
    costs: dict[str, float] = {}
    for start in starts:
        if start.key not in left:
            continue
        current = start
        costs[current.key] = _cost((yield [left.pop(current.key)])[0])
        moved = True
        while moved:
            moved = False
            for name in current.values:
                near = _line(space, current, name)
                new = [left.pop(each.key) for each in near if each.key in left]
                if new:
                    told = yield new
                    costs.update((each.key, _cost(c)) for each, c in zip(new, told, strict=True))
                line = [current, *near]
                best = min(line, key=lambda each: (costs[each.key], each.place))
                if costs[best.key] < costs[current.key]:
                    current, moved = best, True


def _cost(told: float | None) -> float:
    return math.inf if told is None else told


def _line(space: Sequence[Candidate], start: Candidate, name: str) -> list[Candidate]:
    """The others that differ from one in a single parameter."""
    rest = _without(start, name)
    return [each for each in space if each is not start and _without(each, name) == rest]


def _without(candidate: Candidate, name: str) -> dict[str, Any]:
    return {n: value for n, value in candidate.values.items() if n != name}


STRATEGIES: dict[str, Strategy] = {
    "guided": guided,
    "exhaustive": exhaustive,
    "random": shuffled,
    "descent": descent,
}


def read_strategy(name: str) -> Strategy:
    """A strategy by name.

    Raises:
        UsageError: there is none of that name.
    """
    if name not in STRATEGIES:
        raise UsageError(f"there is no search `{name}`; choose from {', '.join(STRATEGIES)}")
    return STRATEGIES[name]
