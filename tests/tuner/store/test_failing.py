"""Conditions that describe which configurations of a tuning fail."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from ttools.tuner.measure.trial import Status, Trial
from ttools.tuner.store.failing import failure_conditions
from ttools.tuner.store.problem import Problem
from ttools.tuner.store.store import TuningEntry

KEY = '{"GROUP_SIZE": 64, "dtypes": []}'
PROBLEM = Problem(kernel="k", source="1", key=KEY, device="d", versions="v1")


def entry(status: Callable[[int, int], Status], **fields) -> TuningEntry:
    trials = [
        Trial(values={"BLOCK_K": k, "num_warps": w}, status=status(k, w))
        for k, w in product((16, 32, 64, 128, 256), (2, 4, 8))
    ]
    return TuningEntry(problem=PROBLEM, trials=trials, **fields)


def test_the_condition_names_the_constant_that_equals_the_bound() -> None:
    found = failure_conditions(entry(lambda k, w: "wrong" if k > 64 else "ok"))
    assert list(map(str, found)) == ["wrong exactly where BLOCK_K > GROUP_SIZE (64)"]
    assert found[0].count == 6


def test_the_arguments_of_the_launch_are_constants_too() -> None:
    tuned = entry(lambda k, w: "wrong" if k > 64 else "ok", constants={"K": 64})
    assert list(map(str, failure_conditions(tuned))) == ["wrong exactly where BLOCK_K > 64"]


def test_each_reason_has_its_own_condition() -> None:
    def status(k: int, w: int) -> Status:
        return "over_limit" if k == 256 else "wrong" if w == 8 else "ok"

    found = failure_conditions(entry(status))
    assert list(map(str, found)) == [
        "exceeds a limit of the GPU exactly where BLOCK_K > 128",
        "wrong exactly where num_warps > 4",
    ]


def test_copies_of_a_trial_are_no_evidence() -> None:
    """On a CPU, configurations that differ only in `num_warps` make the same launch."""
    trials = [
        Trial(
            values={"BLOCK_K": k, "num_warps": w},
            status="wrong" if k > 64 else "ok",
            same_as="" if w == 2 else f"BLOCK_K={k}",
        )
        for k, w in product((32, 64, 128, 256), (2, 4, 8))
    ]
    assert failure_conditions(TuningEntry(problem=PROBLEM, trials=trials)) == []
