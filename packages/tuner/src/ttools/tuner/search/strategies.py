"""In which order configurations are tried: the searches by name.

A search is a generator: it yields candidates whose order does not matter to it, and is sent the
cost of each, None for those that cannot win. What it yields together can be compiled together. It
may use the costs of the candidates for other keys, and what compiling them lets expect. Must not
know what a cost is.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias

from ttools.core.errors import UsageError
from ttools.tuner.search.guided import Hint, Known, guided, no_hint
from ttools.tuner.space.candidate import Candidate

Search: TypeAlias = Generator[Sequence[Candidate], "list[float | None]", None]
Strategy: TypeAlias = Callable[[Sequence[Candidate], int, Sequence[Known], Hint], Search]


def exhaustive(
    space: Sequence[Candidate], seed: int, others: Sequence[Known] = (), hint: Hint = no_hint
) -> Search:
    """All, in the order of the space."""
    if space:
        yield space


STRATEGIES: dict[str, Strategy] = {"guided": guided, "exhaustive": exhaustive}


def read_strategy(name: str) -> Strategy:
    """A strategy by name.

    Raises:
        UsageError: there is none of that name.
    """
    if name not in STRATEGIES:
        raise UsageError(f"there is no search `{name}`; choose from {', '.join(STRATEGIES)}")
    return STRATEGIES[name]
