"""Candidates that must not pass: some are recognised, and some are not recognised yet."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ttools.verifier.cases.tensors import image_of
from ttools.verifier.options import VerifyOptions
from ttools.verifier.oracle.comparison import wrong_elements
from ttools.verifier.serving import verify_here

FILE = Path(__file__).parent / "known_gaps.py"
SUBJECT = {"reference": "double_reference", "inputs": "inputs"}


def outcome_of(candidate: str, reference: str, inputs: str = "inputs", cases: int = 40) -> str:
    names = {"candidate": candidate, "reference": reference, "inputs": inputs}
    subject = {key: f"{FILE}:{name}" for key, name in names.items()}
    options = VerifyOptions(cases=cases, shrink=1, all_sizes_seconds=0, replay_seed=1)
    return str(verify_here(subject, options).outcome)


@pytest.mark.slow
@pytest.mark.parametrize("candidate", ["leaves_nan_unwritten", "replaces_infinities"])
def test_wrong_results_for_special_values(candidate: str) -> None:
    assert outcome_of(candidate, "double_reference", cases=100) == "failed"


@pytest.mark.slow
def test_large_integers_are_compared() -> None:
    assert outcome_of("drops_large_integers", "count_reference", "bfloat16_inputs") == "failed"


@pytest.mark.slow
def test_composite_reductions_are_the_work_of_torch() -> None:
    assert outcome_of("shifts_around_log_sum", "log_sum_reference") == "failed"


@pytest.mark.slow
def test_small_parts_are_the_work_of_torch() -> None:
    reference, inputs = "small_part_reference", "two_inputs"
    assert outcome_of("encodes_small_part", reference, inputs) == "failed"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("candidate", "outcome"), [("widened", "passed"), ("widens_without_nan", "failed")]
)
def test_special_values_of_one_byte(candidate: str, outcome: str) -> None:
    assert outcome_of(candidate, "widened_reference", "float8_inputs") == outcome


@pytest.mark.slow
@pytest.mark.parametrize(
    ("candidate", "outcome"),
    [
        ("doubled_twice", "passed"),
        ("doubled_into_one_buffer", "passed"),
        ("returns_one_tensor_twice", "failed"),
    ],
)
def test_results_must_not_share_memory(candidate: str, outcome: str) -> None:
    assert outcome_of(candidate, "doubled_twice_reference", cases=8) == outcome


@pytest.mark.parametrize(
    ("candidate", "text"),
    [
        ("doubled", ""),
        ("sets_default_type", "the default type of torch from `torch.float32` to `torch.float64`"),
        ("disables_gradients", "the gradient mode of torch from `True` to `False`"),
        ("leaves_gradient", "a gradient to `x`"),
        ("leaves_hook", "a hook to `x`"),
        ("seeds_generator", "seeds the default generator of `torch`"),
        ("seeds_in_a_fork", ""),
        ("draws_a_number", ""),
    ],
)
def test_effects_that_remain_after_a_call(candidate: str, text: str) -> None:
    subject = {key: f"{FILE}:{name}" for key, name in SUBJECT.items()}
    options = VerifyOptions(cases=1, shrink=0, all_sizes_seconds=0, replay_seed=1)
    verification = verify_here({**subject, "candidate": f"{FILE}:{candidate}"}, options)
    assert str(verification.outcome) == ("failed" if text else "passed")
    assert any(text in failure.detail for failure in verification.failures) or not text


@pytest.mark.parametrize(
    ("candidate", "reference", "has_note"),
    [
        ("doubled", "double_reference", False),
        ("transposes_strides", "double_reference", True),
        ("contiguous_transposed", "transposed_reference", False),
    ],
)
def test_strides_of_results_are_noted(candidate: str, reference: str, *, has_note: bool) -> None:
    names = {"candidate": candidate, "reference": reference, "inputs": "inputs"}
    subject = {key: f"{FILE}:{name}" for key, name in names.items()}
    options = VerifyOptions(cases=1, shrink=0, all_sizes_seconds=0, replay_seed=1)
    verification = verify_here(subject, options)
    assert str(verification.outcome) == "passed", verification.failures
    noted = [note for note in verification.notes if "is not contiguous" in note]
    assert bool(noted) == has_note


def test_a_call_may_seed_the_generators_that_the_reference_seeds() -> None:
    assert outcome_of("seeds_generator", "seeding_reference", cases=1) == "passed"


@pytest.mark.parametrize("value", [float("inf"), torch.finfo(torch.float32).max, 1.0])
def test_infinity_is_correct_only_for_infinity(value: float) -> None:
    right = torch.tensor([float("inf"), 1e39, 1.0], dtype=torch.float64)
    given = {"name": "result", "image": image_of(right.float())}
    wrong, _ = wrong_elements(given, image_of(right), None, torch.full((3,), value))
    expected = {
        float("inf"): [False, False, True],
        torch.finfo(torch.float32).max: [True, False, True],
        1.0: [True, True, False],
    }
    assert wrong.tolist() == expected[value]


def test_complex_results_may_be_infinite_or_nan() -> None:
    inf, nan = float("inf"), float("nan")
    right = torch.tensor([complex(inf, 0), complex(nan, 0), complex(1, 1)])
    given = {"name": "result", "image": image_of(right)}
    for value, expected in ((right, [False] * 3), (torch.zeros_like(right), [True] * 3)):
        wrong, _ = wrong_elements(given, None, None, value)
        assert wrong.tolist() == expected
