"""No candidate passes that computes elsewhere and hides it: its launches do not do the work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ttools.verifier.options import VerifyOptions
from ttools.verifier.result import Verification
from ttools.verifier.serving import verify_here
from ttools.verifier.workers.replayer import Replayer

FILE = Path(__file__).parent / "cheating_kernels.py"
CHEATS = [
    *("numpy_on_an_address", "child_process", "modes_off", "recorder_replaced"),
    *("plan_of_another_call", "claims_to_read"),
]
SLOW_CHEATS = ["thread_without_a_class", "recorder_paused", "frames_changed"]
INPUTS = pytest.mark.parametrize(
    "inputs", ["inputs", pytest.param("inputs_without_seed", marks=pytest.mark.slow)]
)


def verified(
    name: str,
    inputs: str = "inputs",
    reference: str = "reference",
    folder: Path | None = None,
    **options: object,
) -> Verification:
    words = {"candidate": name, "reference": reference, "inputs": inputs}
    subject = {key: f"{FILE}:{function}" for key, function in words.items()}
    few: dict[str, Any] = {"cases": 4, "shrink": 1, "all_sizes_seconds": 0, **options}
    return verify_here(subject, VerifyOptions(**few), folder)


@INPUTS
@pytest.mark.parametrize(
    "name", [*CHEATS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW_CHEATS)]
)
def test_a_cheat_fails(name: str, inputs: str) -> None:
    found = verified(name, inputs)
    assert found.verdict == "fail"
    assert found.failures[0].failure == "not_computed_by_kernel"


@pytest.mark.slow
def test_failures_that_only_replay_shows_are_written_as_tests(tmp_path: Path) -> None:
    (failure,) = verified("numpy_on_an_address", folder=tmp_path).failures
    assert failure.test is not None
    text = Path(failure.test).read_text("utf-8")
    assert "needs ttools-verifier" in text
    namespace: dict[str, Any] = {}
    exec(compile(text, failure.test, "exec"), namespace)
    with pytest.raises(AssertionError, match="not_computed_by_kernel"):
        namespace["test_numpy_on_an_address_not_computed_by_kernel"]()
    right = text.replace("numpy_on_an_address", "honest")
    exec(compile(right, failure.test, "exec"), namespace)
    namespace["test_honest_not_computed_by_kernel"]()


@INPUTS
def test_a_small_result_that_a_kernel_copies_is_not_the_kernels(inputs: str) -> None:
    found = verified("sums_by_numpy", inputs, "sum_reference")
    assert [each.failure for each in found.failures] == ["not_computed_by_kernel"]


@INPUTS
def test_a_workspace_may_hold_the_last_result(inputs: str) -> None:
    found = verified("sums_in_a_workspace", inputs, "sum_reference")
    assert not found.failures
    assert found.replay.cases == 4


def test_launches_that_nothing_explains_are_not_deterministic() -> None:
    [failure] = verified("launches_by_chance", cases=40).failures
    assert failure.failure == "nondeterministic"
    assert failure.detail.startswith("equal first calls in two processes use different kernels")
    assert not verified("launches_by_value", cases=40).failures


def test_functions_that_a_candidate_replaces_are_in_the_report() -> None:
    found = verified("replaces_a_function")
    assert not found.failures
    assert "the candidate replaces `torch.allclose`, but only in its own process" in found.notes


def test_what_is_honest_is_repeated_on_other_inputs() -> None:
    found = verified("honest")
    assert (found.failures, found.replay.verified) == ((), True)
    assert found.replay.unseen == found.replay.cases == 4


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("claims_that_there_is_no_plan", "not among those"),
        ("steps_removed", "used before it is made"),
    ],
)
def test_what_cannot_be_repeated_is_not_verified(name: str, reason: str) -> None:
    found = verified(name, replay="required")
    assert not found.replay.verified
    assert reason in found.replay.reasons[0]
    assert found.verdict == "inconclusive"
    assert found.reason.startswith("not verified by replay, which was required")


@pytest.mark.parametrize("required", ["on", "required"])
def test_a_replay_that_cannot_start_weakens_the_verdict(
    monkeypatch: pytest.MonkeyPatch, required: str
) -> None:
    def broken(self: Replayer, request: dict[str, Any]) -> dict[str, Any]:
        raise OSError("there is no space left")

    monkeypatch.setattr(Replayer, "_load", broken)
    found = verified("honest", replay=required)
    assert found.verdict == ("pass" if required == "on" else "inconclusive")
    assert "not verified by replay" in found.reason
    (why,) = found.replay.reasons
    assert why == (
        "the process that executes plans cannot start: OSError: there is no space left (4 cases)"
    )


def test_without_replay_nothing_is_verified_by_it() -> None:
    found = verified("honest", replay="off")
    assert not found.failures
    assert not found.replay.verified
    assert found.replay.reasons == ("replay is off",)
    assert found.verdict == "pass"
    assert "not verified by replay" in found.reason


def test_a_timeout_that_a_candidate_claims_is_not_a_pass() -> None:
    found = verified("claims_timeouts")
    assert (found.failures, found.verdict) == ((), "inconclusive")
    assert "not checked: a launch exceeded its time limit" in found.notes


def test_an_answer_takes_a_share_of_the_memory_limit() -> None:
    found = verified("claims_a_long_answer", memory=256 << 20, cases=1, shrink=0)
    [failure] = found.failures
    assert failure.failure == "exception"
    assert failure.detail == (
        "the process has sent a message of 104,857,600 bytes; at most 67,108,864 bytes are read"
    )


def test_the_process_of_the_reference_says_whether_it_has_loaded_the_candidate(
    tmp_path: Path,
) -> None:
    note = "the process that evaluates the reference has loaded the candidate's file"
    together = verified("honest", cases=1)
    assert not together.replay.separate
    assert any(each.startswith(note) for each in together.notes)
    own = tmp_path / "reference.py"
    own.write_text(
        "import torch\n\nDOMAIN = {'rows': (1, 12), 'columns': (1, 60)}\n\n"
        "def inputs(rows, columns, seed):\n"
        "    generator = torch.Generator().manual_seed(seed)\n"
        "    return {'x': torch.randn(rows, columns, generator=generator)}\n\n"
        "def reference(x):\n    return torch.softmax(x, dim=1)\n"
    )
    subject = {"candidate": f"{FILE}:honest"}
    subject |= {name: f"{own}:{name}" for name in ("reference", "inputs")}
    few = VerifyOptions(cases=1, all_sizes_seconds=0)
    apart = verify_here(subject, few)
    assert (apart.replay.separate, apart.passed) == (True, True)
    assert not any(each.startswith(note) for each in apart.notes)


@pytest.mark.slow
def test_a_candidate_that_sleeps_costs_its_limit_a_few_times() -> None:
    words = {"candidate": "sleeps", "reference": "reference", "inputs": "inputs"}
    subject = {key: f"{FILE}:{function}" for key, function in words.items()}
    found = verify_here(subject, VerifyOptions(answer_seconds=5.0, all_sizes_seconds=0))
    # The verdict depends on whether loading the file ends within the remaining time.
    assert found.verdict in ("fail", "inconclusive")
    assert found.covered["cases"] < 10
