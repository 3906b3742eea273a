"""The examples of the repository pass verification."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttools.verifier.api import verify

pytestmark = pytest.mark.slow

FILE = Path(__file__).parent / "verified_examples.py"


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("softmax", "rows"),
        ("row_sum", "rows"),
        ("transpose", "fours"),
        ("add", "pairs"),
        ("add_one", "small"),
        ("matmul", "factors"),
        ("layer_norm", "normalised"),
        ("attention", "heads"),
    ],
)
def test_an_example_passes(name: str, inputs: str) -> None:
    verification = verify(
        f"{FILE}:{name}", f"{FILE}:{name}_reference", f"{FILE}:{inputs}", shrink=4
    )
    assert verification.verdict == "pass", verification
