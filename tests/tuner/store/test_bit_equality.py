"""Descriptions of the configurations of a tuning that compute the same bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
import torch

from ttools.tuner.measure.comparison import bit_equal
from ttools.tuner.measure.trial import Trial
from ttools.tuner.store.bit_equality import bit_equality
from ttools.tuner.store.problem import Problem
from ttools.tuner.store.store import TuningEntry


def entry(
    has_same_bits: Callable[[int, int], bool | None],
    device: str = "cpu",
    blocks: tuple[int, ...] = (64, 128, 256, 512),
) -> TuningEntry:
    problem = Problem(kernel="k", source="1", key='{"dtypes": []}', device=device, versions="v1")
    trials = [
        Trial(values={"B": b, "num_stages": s}, status="ok", bit_equal=has_same_bits(b, s))
        for b, s in product(blocks, (1, 2, 3))
    ]
    return TuningEntry(problem=problem, trials=trials)


def test_a_condition_describes_the_configurations_that_differ() -> None:
    assert bit_equality(entry(lambda b, s: b < 200)) == (
        "6 of 12 configurations are not bit-equal to the first one (exactly where B > 128), "
        "because another order of operations rounds differently; on the CPU, num_warps has no "
        "effect"
    )


def test_few_configurations_are_listed() -> None:
    """One configuration determines no condition."""
    text = bit_equality(entry(lambda b, s: (b, s) != (128, 2), "cuda: H100 (sm_90)", (64, 128)))
    assert "1 of 6 configurations" in text
    assert "(B=128, num_stages=2)" in text
    assert "num_warps" not in text


def test_all_are_equal() -> None:
    text = bit_equality(entry(lambda b, s: True, "cuda: H100 (sm_90)"))
    assert text == "the outputs of 12 configurations are bit-equal"


def test_only_comparisons_with_the_same_configuration_are_described() -> None:
    """Trials of an earlier run may have been compared with another configuration."""
    stored = entry(lambda b, s: True, "cuda: H100 (sm_90)")
    trials = [replace(one, reference="new") for one in stored.trials[:4]]
    trials += [replace(one, reference="old", bit_equal=False) for one in stored.trials[4:7]]
    text = bit_equality(replace(stored, trials=trials))
    assert text == "the outputs of 4 configurations are bit-equal"


def test_bits_that_were_not_compared() -> None:
    assert bit_equality(entry(lambda b, s: None)) == ""


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ({"y": torch.tensor([0.0, 1.0])}, True),
        ({"y": torch.tensor([-0.0, 1.0])}, False),
        ({"y": torch.tensor([0.0, 1.0 + 2**-23])}, False),
        ({"y": torch.tensor([0.0, 1.0], dtype=torch.float64)}, False),
        ({"z": torch.tensor([0.0, 1.0])}, False),
    ],
)
def test_outputs_with_the_same_bits(other: dict[str, torch.Tensor], same: bool) -> None:
    assert bit_equal({"y": torch.tensor([0.0, 1.0])}, other) is same
