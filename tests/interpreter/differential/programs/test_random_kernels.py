"""Tests that random kernels agree with NumPy; `TTOOLS_FUZZ` sets the number of kernels."""

from __future__ import annotations

import os

import hypothesis
import pytest
from random_kernels import RandomKernel, check, random_kernels

from ttools.interpreter import interpret

COUNT = int(os.environ.get("TTOOLS_FUZZ", "25"))


@pytest.mark.slow
@pytest.mark.timeout(max(300, 2 * COUNT))
@hypothesis.settings(
    max_examples=COUNT,
    suppress_health_check=list(hypothesis.HealthCheck),
)
@hypothesis.given(kernel=random_kernels())
def test_random_kernel(kernel: RandomKernel) -> None:
    with pytest.MonkeyPatch.context() as patch:  # the levels of the fixture `schedule`
        patch.setenv("TTOOLS_OPT", "2")
        with interpret():
            check(kernel)
        patch.setenv("TTOOLS_OPT", "0")
        with interpret(schedule="materialised"):
            check(kernel)
