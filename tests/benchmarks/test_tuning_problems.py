"""The problems on which tuners are compared, and the evaluation of a replay."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
import torch

from ttools.interpreter import device_map
from ttools.sanitizer import sanitize
from ttools.tuner.space.candidate import candidates

TUNING = Path(__file__).parents[2] / "benchmarks" / "tuning"
sys.path.insert(0, str(TUNING))
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
    assert {*problem.key} <= {*problem.kernel.arg_names}


def test_the_gap_is_that_of_the_best_one_found_within_a_budget() -> None:
    (problem,) = (each for each in PROBLEMS if each.name == "quantize")
    space = candidates(problem.configs())
    medians = {each.key: 100 + n for n, each in enumerate(space)}
    row = Recorded(
        kernel="quantize", shape={"rows": 1}, space=space, samples={}, medians=medians, facts={}
    )
    order = [space[20], space[10], space[3], *space[40:]]
    found = {each.key: None if each is space[10] else medians[each.key] for each in order}
    gaps = curve(row, found, ["1", "2", "3", "default"])
    assert gaps == pytest.approx({"1": 0.2, "2": 0.2, "3": 0.03, "default": 0.03})
    assert math.isinf(curve(row, {space[10].key: None}, ["1"])["1"])


@pytest.mark.parametrize(
    "problem",
    [
        pytest.param(
            problem,
            id=problem.name,
            marks=() if problem.name in ("add_norm", "quantize") else pytest.mark.slow,
        )
        for problem in PROBLEMS
    ],
)
def test_the_first_and_the_last_configuration_compute_the_same(problem) -> None:
    configs = problem.configs()
    results = []
    with device_map("cuda=cpu"), sanitize() as report:
        for config in (configs[0], configs[-1]):
            torch.manual_seed(0)
            arguments, grid = problem.inputs(**problem.small)
            values = {name: v for name, v in config.all_kwargs().items() if v is not None}
            problem.kernel[grid(values)](**arguments, **values)
            results.append([v.cpu() for v in arguments.values() if isinstance(v, torch.Tensor)])
    assert not [f for f in report.findings if f.severity == "error"]
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one.float(), other.float(), rtol=1e-2, atol=1e-2)
