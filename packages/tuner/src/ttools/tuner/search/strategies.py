"""The search strategies by name.

A search is a generator. It yields batches of candidates, which may be compiled and tried in any
order within a batch, and receives the cost of each candidate; None means that the candidate cannot
win. A search may use costs for other keys of the kernel, and estimates from compiled code.
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
    """Propose all candidates at once, in the order of the space."""
    if space:
        yield space


STRATEGIES: dict[str, Strategy] = {"guided": guided, "exhaustive": exhaustive}


def read_strategy(name: str) -> Strategy:
    """Return a strategy by name.

    Raises:
        UsageError: There is no strategy of that name.
    """
    if name not in STRATEGIES:
        raise UsageError(f"there is no search `{name}`; choose from {', '.join(STRATEGIES)}")
    return STRATEGIES[name]
