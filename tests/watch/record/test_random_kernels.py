"""Random kernels compute the same while all variables are watched, and agree with Python."""

from __future__ import annotations

import sys
from pathlib import Path

import hypothesis
import pytest

from ttools.watch import watch

sys.path.insert(0, str(Path(__file__).parents[2] / "interpreter" / "differential"))

from random_kernels import RandomKernel, check, random_kernels


@pytest.mark.slow
@hypothesis.settings(max_examples=6, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(kernel=random_kernels())
def test_python_agrees_with_watched_native_code(kernel: RandomKernel) -> None:
    with watch(compare="eager", rtol=0, atol=0) as run:
        check(kernel)
    comparison = run.comparison
    assert comparison.first is None, comparison.first
    assert comparison.compared > 0
