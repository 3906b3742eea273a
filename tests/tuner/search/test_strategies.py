"""What the strategies try, and in which order."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import triton
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.core.errors import UsageError
from ttools.tuner.options import TuneOptions
from ttools.tuner.search.strategies import STRATEGIES, descent, no_hint
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
            batch = search.send([cost(each) for each in batch])
    except StopIteration:
        return order


@settings(max_examples=60)
@given(
    st.sampled_from(sorted(STRATEGIES)),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(0, 99),
    st.randoms(use_true_random=False),
)
def test_every_strategy_ends_with_all_tried_and_repeats_itself(
    name: str, rows: int, columns: int, seed: int, random
) -> None:
    space = grid(rows, columns)
    costs = {each.key: random.choice([None, random.random()]) for each in space}
    first = tried(name, space, lambda each: costs[each.key], seed)
    assert {each.key for each in first} == set(costs)
    again = tried(name, space, lambda each: costs[each.key], seed)
    assert [each.key for each in again] == [each.key for each in first]


def test_descent_follows_a_valley() -> None:
    space = grid(8, 8)
    order = tried("descent", space, lambda c: (c.values["A"] - 6) ** 2 + (c.values["B"] - 5) ** 2)
    best = next(n for n, c in enumerate(order) if (c.values["A"], c.values["B"]) == (6, 5))
    assert best < 16, "a line along each of two parameters"
    assert order[0] is space[0]


def test_descent_passes_over_what_cannot_win() -> None:
    space = grid(4, 1)
    order = [each.values["A"] for each in tried("descent", space, lambda c: None)]
    assert order[0] == 0
    assert sorted(order) == [0, 1, 2, 3]


def test_an_empty_space_has_nothing_to_try() -> None:
    assert list(descent([], 0)) == []


def test_equal_configurations_are_one_candidate() -> None:
    configs = [triton.Config({"A": 1}), triton.Config({"A": 2}), triton.Config({"A": 1})]
    assert [each.values["A"] for each in candidates(configs)] == [1, 2]


def test_unknown_strategies_are_named() -> None:
    with pytest.raises(UsageError, match="no search `clever`; choose from guided, exh"):
        TuneOptions(search="clever")
    with pytest.raises(UsageError, match="at least one"):
        TuneOptions(trials=0)
