"""Verification of operators of Liger-Kernel: correct ones pass, and a defect is found."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("liger_kernel", reason="liger-kernel is not installed")

from ttools.verifier.api import verify

pytestmark = pytest.mark.slow

FILE = Path(__file__).parent / "verified_liger.py"


@pytest.mark.parametrize(
    ("name", "inputs", "classes"),
    [("softmax", "rows", set()), ("rope", "heads", {"race", "input_modified", "layout"})],
)
def test_an_operator(name: str, inputs: str, classes: set[str]) -> None:
    verification = verify(
        f"{FILE}:{name}", f"{FILE}:{name}_reference", f"{FILE}:{inputs}", shrink=4
    )
    assert {failure.failure for failure in verification.failures} == classes
    assert verification.verdict == ("fail" if classes else "pass")
