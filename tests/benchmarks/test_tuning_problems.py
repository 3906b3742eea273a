"""What tuners are compared on, and how a replay is judged."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from ttools.tuner.space.candidate import candidates

TUNING = Path(__file__).parents[2] / "benchmarks" / "tuning"
sys.path.insert(0, str(TUNING))
from given_up import given_up  # noqa: E402
from leave_one_out import curve  # noqa: E402
from tuning_problems import PROBLEMS  # noqa: E402
from tuning_samples import Recorded  # noqa: E402

sys.path.remove(str(TUNING))


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_each_problem_has_a_space_and_keys_of_its_own(problem) -> None:
    space = candidates(problem.configs())
    assert 40 <= len(space) == len(problem.configs()) <= 80
    keys = [tuple(problem.key_of(shape).values()) for shape in problem.shapes]
    assert len(set(keys)) == len(problem.shapes) == 3
    assert {*problem.key, *problem.sums_into} <= {*problem.kernel.arg_names}


def test_the_gap_is_that_of_the_best_one_found_within_a_budget() -> None:
    (problem,) = (each for each in PROBLEMS if each.name == "gelu")
    space = candidates(problem.configs())
    medians = {each.key: 100 + n for n, each in enumerate(space)}
    row = Recorded(
        kernel="gelu", shape={"n": 1}, space=space, samples={}, medians=medians, facts={}
    )
    order = [space[20], space[10], space[3], *space[40:]]
    found = {each.key: None if each is space[10] else medians[each.key] for each in order}
    gaps = curve(row, found, ["1", "2", "3", "default"])
    assert gaps == pytest.approx({"1": 0.2, "2": 0.2, "3": 0.03, "default": 0.03})
    assert math.isinf(curve(row, {space[10].key: None}, ["1"])["1"])


def test_only_what_compiles_far_slower_than_three_quarters_is_given_up() -> None:
    (problem,) = (each for each in PROBLEMS if each.name == "gelu")
    space = candidates(problem.configs())
    seconds = {each.key: 1.0 for each in space}
    slow, slower = space[7].key, space[9].key
    assert given_up(space, seconds, 16, 0.0) == set()
    assert given_up(space, seconds | {slow: 3.0, slower: 30.0}, 16, 0.0) == {slower}
    assert given_up(space, seconds | {slower: 30.0}, 16, 40.0) == set()
