"""Which parameters matter, on tunings whose times are a known function of them."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from ttools.tuner.measure.trial import Trial
from ttools.tuner.report.importances import Importances, importances
from ttools.tuner.store.problem import Problem
from ttools.tuner.store.store import TuningEntry

Cost = Callable[[dict[str, Any]], float]


def tuned(cost: Cost, **values: list[Any]) -> TuningEntry:
    every = [dict(zip(values, each, strict=True)) for each in itertools.product(*values.values())]
    trials = [Trial(values=each, status="ok", samples=(cost(each),) * 7) for each in every]
    problem = Problem(
        kernel="k", source="", key=json.dumps({"dtypes": []}), device="cpu", versions=""
    )
    return TuningEntry(problem=problem, trials=trials, winner=trials[0].key)


SPACE: dict[str, list[Any]] = {
    "BLOCK": [16, 32, 64, 128],
    "num_warps": [1, 2, 4, 8],
    "ORDER": ["row", "column"],
}


def test_shares_follow_what_times_depend_on() -> None:
    def cost(values: dict[str, Any]) -> float:
        slow = 1.2 if values["ORDER"] == "row" else 1.0
        return 1e-6 * float(values["BLOCK"]) * slow

    found = importances(tuned(cost, **SPACE))
    assert found is not None
    assert list(found.shares)[:2] == ["BLOCK", "ORDER"]
    assert found.shares["BLOCK"] > 0.9
    assert found.shares["num_warps"] < 0.02
    assert sum(found.shares.values()) == pytest.approx(1.0)
    assert found.explained > 0.9


def test_parameters_that_matter_together_both_count() -> None:
    def cost(values: dict[str, Any]) -> float:
        return 4e-6 if (values["BLOCK"] > 32) == (values["num_warps"] > 2) else 1e-6

    found = importances(tuned(cost, **SPACE))
    assert found is not None
    assert found.shares["BLOCK"] == pytest.approx(found.shares["num_warps"], rel=0.3)
    assert found.shares["ORDER"] < 0.05


def test_nothing_is_said_of_noise_of_few_and_of_one_parameter() -> None:
    noise = random.Random(1)
    assert importances(tuned(lambda _: 1e-6 * (1 + noise.random()), **SPACE)) is None
    few = {"BLOCK": [16, 32], "num_warps": [1, 2, 4, 8, 16]}
    assert importances(tuned(lambda v: 1e-6 * float(v["BLOCK"]), **few)) is None
    one = {"BLOCK": list(range(1, 20)), "num_warps": [4]}
    assert importances(tuned(lambda v: 1e-6 * float(v["BLOCK"]), **one)) is None
    assert importances(tuned(lambda _: 1e-6, **SPACE)) is None


def test_a_sentence() -> None:
    found = Importances(explained=0.934, shares={"BLOCK": 0.75, "num_warps": 0.25})
    assert str(found) == "BLOCK 75%, num_warps 25%; a forest on them explains 93% of times left out"
