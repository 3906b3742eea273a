"""Differences of stores that `ttools tune diff` reports as changes."""

from __future__ import annotations

from dataclasses import replace

from ttools.tuner.measure.trial import Trial
from ttools.tuner.space.candidate import config_key
from ttools.tuner.store.difference import changes
from ttools.tuner.store.problem import Problem
from ttools.tuner.store.store import TuningEntry

PROBLEM = Problem(kernel="k", source="1", key='{"n": 5, "dtypes": []}', device="d", versions="v1")


def entry(
    winner: int, seconds: float, *rejected: int, spread: float = 0.01, **changed
) -> TuningEntry:
    samples = tuple(seconds * (1 + spread * n) for n in range(-5, 6))
    trials = [
        Trial(
            values={"BLOCK": block},
            status="wrong" if block in rejected else "ok",
            samples=() if block in rejected else samples,
        )
        for block in (1, 2)
    ]
    problem = replace(PROBLEM, **changed)
    return TuningEntry(problem=problem, trials=trials, winner=config_key({"BLOCK": winner}))


def test_equal_stores_have_no_changes() -> None:
    (change,) = changes([entry(1, 1.0)], [entry(1, 1.01, spread=0.02)])
    assert not change.is_one
    assert change.ratio == 1.01


def test_another_winner_and_a_significant_time_are_changes() -> None:
    (change,) = changes([entry(1, 1.0)], [entry(2, 0.5, source="2", versions="v2")])
    assert change.is_one
    assert change.sure
    assert (change.old, change.new) == ({"BLOCK": 1}, {"BLOCK": 2})
    assert (change.ratio, change.source_changed) == (0.5, True)
    assert change.versions == ("v1", "v2")


def test_configurations_that_now_fail() -> None:
    (change,) = changes([entry(1, 1.0)], [entry(1, 1.0, 2)])
    assert change.statuses == [({"BLOCK": 2}, "ok", "wrong")]
    assert change.is_one


def test_problems_in_one_store_only() -> None:
    on_another_device = entry(1, 1.0, device="e")
    first, second = changes([entry(1, 1.0)], [on_another_device])
    assert (first.old, first.new, first.ratio) == (None, {"BLOCK": 1}, None)
    assert (second.old, second.new) == ({"BLOCK": 1}, None)
    assert first.is_one
    assert second.is_one
