"""One time for each configuration, and the winner at the top of every list."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import triton

from ttools.tuner.measure.trial import ProjectedInterval, Trial
from ttools.tuner.report.html import write_page
from ttools.tuner.space.candidate import candidates, config_key
from ttools.tuner.store.problem import Problem
from ttools.tuner.store.ranking import (
    compared_with_winner,
    config_source,
    estimate,
    gain_over_first,
    is_tied,
    ranked,
    reason,
    winning_trial,
)
from ttools.tuner.store.store import TuningEntry

PROBLEM = Problem(kernel="k", source="1", key='{"n": 5, "dtypes": []}', device="d", versions="v1")


def trial(block: int, seconds: float | None, **more: Any) -> Trial:
    samples = () if seconds is None else (seconds,) * 9
    return Trial(**{"values": {"BLOCK": block}, "status": "ok", "samples": samples, **more})


def entry(winner: int, final: dict[int, float], *trials: Trial) -> TuningEntry:
    return TuningEntry(
        problem=PROBLEM,
        trials=trials,
        winner=config_key({"BLOCK": winner}),
        final={config_key({"BLOCK": block}): [s] * 9 for block, s in final.items()},
    )


def test_the_winner_is_listed_first_with_its_final_time() -> None:
    """List block 2 first: it won the alternating measurements, although 1 was fastest alone."""
    winner_last = entry(
        2,
        {1: 1.2, 2: 1.0},
        trial(8, None, status="wrong", reason="other outputs"),
        trial(1, 0.9),
        trial(2, 0.95),
        # Measured alone, with shorter times: it is not a finalist and is listed after these.
        trial(4, 1.1),
    )
    assert [config.values["BLOCK"] for config in ranked(winner_last)] == [2, 1, 4, 8]
    assert [estimate(winner_last, config) for config in ranked(winner_last)] == [
        1.0,
        1.2,
        1.1,
        None,
    ]
    best = winning_trial(winner_last)
    assert best is not None
    assert best.values == {"BLOCK": 2}
    assert reason(winner_last) == (
        "the fastest, timed alternately with 1 other close to it: the next one takes 20.0% longer"
    )
    assert gain_over_first(winner_last) is None, "the first configuration has failed"
    page = write_page([winner_last])
    page = page[page.index("<tbody") if "<tbody" in page else page.index("<table") :]
    assert page.index("BLOCK=2") < page.index("BLOCK=1")
    assert "The winner is the fastest, timed alternately" in write_page([winner_last])


def test_equal_configurations_are_marked() -> None:
    equal = entry(1, {1: 1.005, 2: 1.0}, trial(1, 1.0), trial(2, 1.0))
    assert reason(equal) == (
        "tied with 1 other within the measurement's uncertainty; chosen for the fewest resources"
    )
    assert [is_tied(equal, config) for config in equal.trials] == [False, True]
    assert [config.values["BLOCK"] for config in ranked(equal)] == [1, 2]
    assert gain_over_first(equal) == 1.0


def test_predictions_and_single_configurations() -> None:
    trials = trial(1, None, predicted=3.0), trial(2, None, predicted=2.0)
    assert reason(entry(2, {}, *trials)) == (
        "the fastest, by projected time: the next one takes 50.0% longer"
    )
    assert gain_over_first(entry(2, {}, *trials)) == 1.5
    # The intervals overlap.
    near = projected(1, 3.0), projected(2, 2.0), projected(3, 9.0)
    assert reason(entry(2, {}, *near)) == (
        "tied with 1 other within the projection's uncertainty; chosen for the shortest time"
    )
    assert [is_tied(entry(2, {}, *near), config) for config in near] == [True, False, False]
    assert reason(entry(1, {}, trial(1, 1.0))) == "the only one that can win"
    assert reason(TuningEntry(problem=PROBLEM, trials=[trial(1, 1.0)])) == ""


def projected(block: int, seconds: float) -> Trial:
    interval: ProjectedInterval = {"low": 0.7 * seconds, "high": 1.5 * seconds, "outside": []}
    return trial(block, None, predicted=seconds, projection=interval)


def test_overlapping_times_are_a_tie_although_the_medians_differ() -> None:
    """Call two configurations tied if their medians differ by 11% and the noise is a third."""
    noise = (0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 1.1, 1.2, 1.4)
    near, far = tuple(5.41 * n for n in noise), tuple(6.02 * n for n in noise)
    tuned = entry(1, {}, trial(1, None, samples=near), trial(2, None, samples=far))
    tuned = replace(
        tuned, final={t.key: list(t.samples) for t in tuned.trials}, present=tuned.trials[1].key
    )
    assert reason(tuned).startswith("tied with 1 other within the measurement's uncertainty")
    found = compared_with_winner(tuned, tuned.trials[1])
    assert found is not None
    assert found.low is not None
    assert found.low < 1 < found.ratio
    few = entry(1, {}, trial(1, None, samples=near[:3]), trial(2, None, samples=(9.0, 9.1, 9.2)))
    assert reason(few).endswith("% longer (too few samples for an interval)")
    quiet = entry(1, {}, trial(1, 5.41), trial(2, 6.02))
    assert reason(quiet) == "the fastest, measured: the next one takes 11.3% longer"


def test_the_same_launch_is_not_called_a_tie() -> None:
    same = replace(trial(2, 1.0), same_as=trial(1, 1.0).key)
    assert reason(entry(1, {}, trial(1, 1.0), same)) == "the only one that can win"


@pytest.mark.parametrize(
    "config",
    [
        triton.Config({"BLOCK": 64, "KIND": 'a"b'}, num_warps=8, num_stages=2),
        triton.Config({}, num_warps=1, maxnreg=64),
    ],
)
def test_printed_configurations_can_be_evaluated(config: triton.Config) -> None:
    (candidate,) = candidates([config])
    again = eval(config_source(candidate.values), {"triton": triton})
    assert again.all_kwargs() == config.all_kwargs()
