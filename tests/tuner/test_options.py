"""Numbers of trials: levels of effort, options that override them, and their description."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from ttools.core.errors import UsageError
from ttools.tuner.options import EFFORTS, Effort, TuneOptions

SIZES = (1, 16, 32, 33, 128, 129, 1999, 2000, 9_999, 10_000, 100_000, 1_000_000)
BUDGETS: dict[Effort, tuple[int, ...]] = {
    "quick": (1, *(16,) * 11),
    "default": (1, 16, 32, 32, 32, 33, 500, 500, 500, 500, 500, 500),
    "full": (1, 16, 32, 33, 128, 129, 1999, 2000, 9_999, 2_500, 2_500, 2_500),
}


@pytest.mark.parametrize("effort", EFFORTS)
def test_budgets_of_each_level(effort: Effort) -> None:
    options = TuneOptions(effort=effort)
    assert tuple(map(options.budget, SIZES)) == BUDGETS[effort]
    assert all(options.budget(size) <= options.most_shared(size) <= size for size in SIZES)


def test_a_higher_level_never_tries_less() -> None:
    for size in SIZES:
        most = [TuneOptions(effort=effort).budget(size) for effort in EFFORTS]
        assert all(less <= more for less, more in pairwise(most)), size


@pytest.mark.parametrize(
    ("requested", "space", "most"),
    [
        ({"trials": 5}, 1000, 5),
        ({"trials": 50}, 20, 20),
        ({"trials": 20_000}, 100_000, 20_000),
        ({"seconds": 3.0}, 1000, 1000),
        ({"within": 3.0}, 100_000, 100_000),
        ({"trials": 7, "seconds": 3.0}, 1000, 7),
    ],
)
def test_explicit_options_take_precedence(requested: Any, space: int, most: int) -> None:
    for effort in EFFORTS:
        options = TuneOptions(effort=effort, **requested)
        assert options.budget(space) == most
        assert options.most_shared(space) == space
        assert not options.by_effort
        assert not options.may_sweep
        assert not options.is_enough(space, space - 1)
        assert not options.tries_all(space)


def test_an_exhaustive_search_tries_all_but_contradicts_quick() -> None:
    for effort in ("default", "full"):
        assert TuneOptions(search="exhaustive", effort=effort).budget(100_000) == 100_000
    with pytest.raises(
        UsageError, match=r"effort quick tries 16 .* but search exhaustive tries all"
    ):
        TuneOptions(search="exhaustive", effort="quick")
    assert TuneOptions(search="exhaustive", effort="quick", trials=3).budget(9) == 3
    with pytest.raises(UsageError, match="effort=slow: must be one of quick, default, full"):
        TuneOptions(effort="slow")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "space", "sentence"),
    [
        (TuneOptions(), 1204, "1,204 configurations, effort default: at most 301 of them"),
        (TuneOptions(), 20, "20 configurations, effort default: all of them"),
        (TuneOptions(effort="quick"), 54, "54 configurations, effort quick: at most 16 of them"),
        (
            TuneOptions(effort="full"),
            20_000,
            "20,000 configurations, effort full: at most 2,500 of them",
        ),
        (
            TuneOptions(effort="full", trials=9, within=2.0),
            54,
            (
                "54 configurations, search guided, at most 9 of them, until the best is within 2% "
                "of the optimum"
            ),
        ),
        (
            TuneOptions(search="exhaustive", seconds=5.0),
            54,
            "54 configurations, search exhaustive, no new ones after 5 s",
        ),
    ],
)
def test_the_plan_is_described(options: TuneOptions, space: int, sentence: str) -> None:
    assert options.plan(space, options.budget(space)) == sentence


def test_all_are_timed_when_compiled_if_the_level_allows_it() -> None:
    assert TuneOptions().may_sweep
    assert TuneOptions(effort="quick").may_sweep, "this level limits the time"
    assert not TuneOptions(effort="full").may_sweep, (
        "a configuration that compiles slowly may be the best"
    )
    assert TuneOptions(effort="full").tries_all(9_999)
    assert not TuneOptions(effort="full").tries_all(10_000)
    assert not TuneOptions().tries_all(20)


def test_a_complete_tuning_with_enough_trials_is_used_unchanged() -> None:
    quick = TuneOptions(effort="quick")
    assert [quick.is_enough(54, count) for count in (15, 16, 40)] == [False, True, True]
    assert not TuneOptions().is_enough(54, 53), "added configurations are tried"
    assert [TuneOptions().is_enough(10**5, count) for count in (499, 500)] == [False, True]
    assert TuneOptions(effort="full").rounds > TuneOptions().rounds == quick.rounds
