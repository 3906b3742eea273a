"""What class a failure has that is none in a call by itself."""

from __future__ import annotations

import pytest

from ttools.verifier.cases.plan import Case
from ttools.verifier.judging.judge import Judge
from ttools.verifier.judging.trial import Trial
from ttools.verifier.oracle.comparison import Mismatch

PLAIN = Case(sizes={})


@pytest.mark.parametrize(
    ("case", "how"),
    [
        (Case(sizes={}, after=(PLAIN,)), "after other calls"),
        (Case(sizes={}, after=(PLAIN,), reuse=True), "with new values in the same storage"),
        (Case(sizes={}, late_grad=True), "where another call comes before its backward pass"),
    ],
)
def test_what_only_other_calls_cause_is_stale_state(
    case: Case, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone: list[Case] = []

    def anew(_: Judge, each: Case) -> Trial:
        alone.append(each)
        return Trial()

    monkeypatch.setattr(Judge, "_anew", anew)
    judge = object.__new__(Judge)
    judge._failed = {}
    problems = [Mismatch("wrong_values", "3 elements"), Mismatch("not_computed_by_kernel", "exp")]
    found = judge._explained(case, Trial(problems=problems))
    # Who computes is no matter of state.
    assert [each.failure for each in found] == ["stale_state", "not_computed_by_kernel"]
    assert found[0].detail == f"right by itself, but wrong {how}: 3 elements"
    assert all(each == PLAIN for each in alone)
    assert bool(found[0].evidence) == case.late_grad
