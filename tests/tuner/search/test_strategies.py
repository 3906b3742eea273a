"""Search strategies: which candidates they try, and in which order."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import triton
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.core.errors import UsageError
from ttools.tuner.options import TuneOptions
from ttools.tuner.search.guided import no_hint
from ttools.tuner.search.strategies import STRATEGIES, exhaustive
from ttools.tuner.space.candidate import Candidate, candidates

Cost = Callable[[Candidate], "float | None"]


def grid(rows: int, columns: int) -> list[Candidate]:
    return candidates(
        [triton.Config({"A": a, "B": b}) for a in range(rows) for b in range(columns)]
    )


def tried(name: str, space: list[Candidate], cost: Cost, seed: int = 0) -> list[Candidate]:
    search = STRATEGIES[name](space, seed, (), no_hint)
    order: list[Candidate] = []
    try:
        batch = next(search)
        while True:
            order += batch
            batch = search.send([cost(candidate) for candidate in batch])
    except StopIteration:
        return order


@settings(max_examples=25)
@given(
    st.sampled_from(sorted(STRATEGIES)),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(0, 99),
    st.randoms(use_true_random=False),
)
def test_every_strategy_tries_all_and_is_deterministic(
    name: str, rows: int, columns: int, seed: int, random
) -> None:
    space = grid(rows, columns)
    costs = {config.key: random.choice([None, random.random()]) for config in space}
    first = tried(name, space, lambda each: costs[each.key], seed)
    assert {candidate.key for candidate in first} == set(costs)
    again = tried(name, space, lambda each: costs[each.key], seed)
    assert [each.key for each in again] == [candidate.key for candidate in first]


def test_an_empty_space_has_nothing_to_try() -> None:
    assert list(exhaustive([], 0)) == []


def test_equal_configurations_are_one_candidate() -> None:
    configs = [triton.Config({"A": 1}), triton.Config({"A": 2}), triton.Config({"A": 1})]
    assert [config.values["A"] for config in candidates(configs)] == [1, 2]


def test_unknown_strategies_are_named() -> None:
    with pytest.raises(UsageError, match="no search `clever`; choose from guided, exh"):
        TuneOptions(search="clever")
    with pytest.raises(UsageError, match="at least one"):
        TuneOptions(trials=0)
