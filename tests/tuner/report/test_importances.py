"""Importances of parameters, for tunings whose times are a known function of the parameters."""

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
    every = [
        dict(zip(values, combination, strict=True))
        for combination in itertools.product(*values.values())
    ]
    trials = [
        Trial(values=combination, status="ok", samples=(cost(combination),) * 7)
        for combination in every
    ]
    problem = Problem(
        kernel="k", source="", key=json.dumps({"dtypes": []}), device="cpu", versions=""
    )
    return TuningEntry(problem=problem, trials=trials, winner=trials[0].key)


SPACE: dict[str, list[Any]] = {
    "BLOCK": [16, 32, 64, 128],
    "num_warps": [1, 2, 4, 8],
    "ORDER": ["row", "column"],
}


def test_shares_follow_the_influence_on_times() -> None:
    def cost(values: dict[str, Any]) -> float:
        slow = 1.2 if values["ORDER"] == "row" else 1.0
        return 1e-6 * float(values["BLOCK"]) * slow

    result = importances(tuned(cost, **SPACE))
    assert result is not None
    assert list(result.shares)[:2] == ["BLOCK", "ORDER"]
    assert result.shares["BLOCK"] > 0.9
    assert result.shares["num_warps"] < 0.02
    assert sum(result.shares.values()) == pytest.approx(1.0)
    assert result.explained > 0.9


def test_interacting_parameters_share_their_importance() -> None:
    def cost(values: dict[str, Any]) -> float:
        return 4e-6 if (values["BLOCK"] > 32) == (values["num_warps"] > 2) else 1e-6

    result = importances(tuned(cost, **SPACE))
    assert result is not None
    assert result.shares["BLOCK"] == pytest.approx(result.shares["num_warps"], rel=0.3)
    assert result.shares["ORDER"] < 0.05


def test_no_importances_for_noise_few_trials_or_one_parameter() -> None:
    noise = random.Random(1)
    assert importances(tuned(lambda _: 1e-6 * (1 + noise.random()), **SPACE)) is None
    few = {"BLOCK": [16, 32], "num_warps": [1, 2, 4, 8, 16]}
    assert importances(tuned(lambda v: 1e-6 * float(v["BLOCK"]), **few)) is None
    single = {"BLOCK": list(range(1, 20)), "num_warps": [4]}
    assert importances(tuned(lambda v: 1e-6 * float(v["BLOCK"]), **single)) is None
    assert importances(tuned(lambda _: 1e-6, **SPACE)) is None


def test_a_sentence() -> None:
    result = Importances(explained=0.934, shares={"BLOCK": 0.75, "num_warps": 0.25})
    assert str(result) == (
        "BLOCK 75%, num_warps 25%; the model explains 93% of the variation in times that it "
        "was not fitted to"
    )
