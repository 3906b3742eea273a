"""Failures that do not occur in a call by itself are attributed to stale state."""

from __future__ import annotations

import pytest

from ttools.verifier.cases.plan import Case
from ttools.verifier.oracle.comparison import Mismatch
from ttools.verifier.run.trial import Trial
from ttools.verifier.run.verification_run import VerificationRun, _Failed, _keep_plainest

PLAIN = Case(sizes={})


@pytest.mark.parametrize(
    ("case", "how"),
    [
        (Case(sizes={}, after=(PLAIN,)), "after other calls"),
        (Case(sizes={}, after=(PLAIN,), reuse=True), "with new values in the same storage"),
        (Case(sizes={}, late_grad=True), "when another call comes before its backward pass"),
        (Case(sizes={}, passes="twice"), "in a second backward pass through the same graph"),
    ],
)
def test_failures_that_need_other_calls_are_stale_state(
    case: Case, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone: list[Case] = []

    def anew(_: VerificationRun, each: Case) -> Trial:
        alone.append(each)
        return Trial()

    monkeypatch.setattr(VerificationRun, "_anew", anew)
    run = object.__new__(VerificationRun)
    run._failed = {}
    problems = [Mismatch("wrong_values", "3 elements"), Mismatch("not_computed_by_kernel", "exp")]
    failures = run._explained(case, Trial(problems=problems))
    # The other failure does not depend on state.
    assert [failure.failure for failure in failures] == ["stale_state", "not_computed_by_kernel"]
    assert failures[0].detail == f"correct by itself, but wrong {how}: 3 elements"
    assert all(tried == PLAIN for tried in alone)
    assert bool(failures[0].evidence) == case.late_grad


def test_a_failure_with_a_source_line_is_kept_rather_than_simpler_inputs() -> None:
    kept: dict[str, _Failed] = {}
    small, large = Case(sizes={"n": 1}), Case(sizes={"n": 100})
    without, located = Mismatch("unwritten", "3 elements"), Mismatch("unwritten", "", where="k:3")
    for problem, case in ((without, small), (located, large), (without, small), (located, small)):
        _keep_plainest(kept, problem.failure, problem, case)
    assert (kept["unwritten"].problem, kept["unwritten"].case) == (located, small)


def test_only_problems_with_a_source_line_count_if_one_is_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without, located = Mismatch("unwritten", "3 elements"), Mismatch("unwritten", "", where="k:3")
    run = object.__new__(VerificationRun)
    monkeypatch.setattr(VerificationRun, "_problems_of", lambda *_: [without, located])
    assert run._problem_of("unwritten", False, PLAIN) is without
    assert run._problem_of("unwritten", True, PLAIN) is located
    assert run._problem_of("race", True, PLAIN) is None
