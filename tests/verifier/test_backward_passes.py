"""Backward passes from one of several results, repeated ones, and second derivatives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ttools.verifier.api import verify
from ttools.verifier.result import Verification

FILE = Path(__file__).parent / "backward_kernels.py"


def verified(candidate: str, reference: str, cases: int = 56) -> Verification:
    names = {"candidate": candidate, "reference": reference, "inputs": "inputs"}
    subject: dict[str, Any] = {key: f"{FILE}:{name}" for key, name in names.items()}
    return verify(**subject, cases=cases, shrink=4, all_sizes_seconds=0, replay_seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("candidate", ["two_results", "skips_unused_results"])
def test_unused_results_have_no_gradient(candidate: str) -> None:
    verification = verified(candidate, "two_results_reference")
    assert str(verification.outcome) == "passed", verification
    assert verification.replay.verified, verification.replay


@pytest.mark.slow
def test_gradients_that_are_wrong_only_if_a_result_is_unused() -> None:
    verification = verified("confuses_unused_results", "two_results_reference")
    assert str(verification.outcome) == "failed"
    (failure,) = verification.failures
    assert failure.failure == "wrong_values"
    assert failure.only_output == "result[0]"


@pytest.mark.slow
def test_repeated_backward_passes_have_equal_gradients() -> None:
    verification = verified("product", "product_reference")
    assert str(verification.outcome) == "passed", verification
    assert verification.replay.verified, verification.replay
    assert not any("does not support" in note for note in verification.notes)


@pytest.mark.slow
def test_gradients_that_are_wrong_in_a_second_backward_pass() -> None:
    verification = verified("overwrites_saved_copies", "product_reference")
    assert str(verification.outcome) == "failed"
    (failure,) = verification.failures
    assert failure.failure == "stale_state"
    assert "in a second backward pass through the same graph" in failure.detail
    assert failure.passes == "twice"


@pytest.mark.slow
def test_a_second_backward_pass_may_raise() -> None:
    verification = verified("frees_saved_tensors", "product_reference")
    assert str(verification.outcome) == "passed", verification
    assert verification.replay.verified, verification.replay
    (note,) = (note for note in verification.notes if "second backward pass" in note)
    assert note.startswith("the candidate does not support a second backward pass through the")
    assert "AttributeError" in note
