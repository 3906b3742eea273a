"""Outputs of configurations are compared by dtype, and the result names the worst element."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.tuner.measure.comparison import TOLERANCES, compare

FLOATS = st.floats(width=32) | st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0])


def is_right(want: list[float], have: list[float], rtol: float) -> bool:
    """Compare element by element with Python's floats."""
    finite = [x for x in want if math.isfinite(x)]
    scale = math.sqrt(sum(x * x for x in finite) / len(finite)) if finite else 0.0
    for a, b in zip(want, have, strict=True):
        if (math.isnan(a) and math.isnan(b)) or a == b:
            continue
        if not (math.isfinite(a) and math.isfinite(b)) or abs(a - b) > rtol * (abs(a) + scale):
            return False
    return True


@settings(max_examples=150)
@given(st.lists(st.tuples(FLOATS, FLOATS, st.booleans()), min_size=1, max_size=6))
def test_agrees_with_plain_python(pairs: list[tuple[float, float, bool]]) -> None:
    want = torch.tensor([a for a, _, _ in pairs])
    have = torch.tensor([a if same else b for a, b, same in pairs])
    difference = compare({"x": want}, {"x": have})
    assert (difference is None) == is_right(want.tolist(), have.tolist(), TOLERANCES["float32"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_rounding_is_accepted_but_a_missing_percent_is_not(dtype: torch.dtype) -> None:
    want = torch.linspace(1, 2, 1000).to(dtype)
    nudged = want * (1 + torch.finfo(dtype).eps)
    assert compare({"x": want}, {"x": nudged}) is None
    cut = want.clone()
    cut[-10:] = 0
    difference = compare({"x": want}, {"x": cut})
    assert difference is not None
    assert difference.startswith("10 of 1,000 elements of `x` differ from the reference")
    assert difference.endswith("] is 0, not 2")


def test_integers_must_agree_exactly() -> None:
    want = torch.arange(6).reshape(2, 3)
    assert compare({"i": want}, {"i": want.clone()}) is None
    changed = want.clone()
    changed[1, 0] += 1
    assert compare({"i": want}, {"i": changed}) == (
        "1 of 6 elements of `i` differ from the reference (exactly): i[1, 0] is 4, not 3"
    )


def test_sums_that_cancel_are_as_exact_as_their_terms() -> None:
    want = torch.tensor([100.0, 0.0])
    assert compare({"x": want}, {"x": torch.tensor([100.0, 1e-3])}) is None
    assert compare({"x": want}, {"x": torch.tensor([100.0, 1e-1])}) is not None
    assert compare({"x": want}, {"x": torch.tensor([100.0, 1e-1])}, rtol=0.01) is None


def test_different_written_arguments_are_a_difference() -> None:
    x = torch.zeros(2)
    assert compare({"x": x}, {"x": x, "y": x}) == "writes `y`, unlike the reference"
    assert compare({"x": x, "y": x}, {"x": x}) == "does not write `y`, unlike the reference"
