"""Random kernels compute the same with and without checks, and have no finding."""

from __future__ import annotations

import sys
from pathlib import Path

import hypothesis
import pytest

from ttools.sanitizer import sanitize

sys.path.insert(0, str(Path(__file__).parents[1] / "interpreter" / "differential"))

from random_kernels import RandomKernel, check, random_kernels


def _run(kernel: RandomKernel) -> None:
    with sanitize() as report:
        check(kernel)
    # A random kernel may contain loads whose result is never used.
    assert not [f for f in report.findings if f.kind != "unused_load"], report


@hypothesis.settings(max_examples=6, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(kernel=random_kernels())
def test_checks_change_nothing(kernel: RandomKernel) -> None:
    _run(kernel)


@pytest.mark.slow
@pytest.mark.timeout(900)
@hypothesis.settings(max_examples=100, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(kernel=random_kernels())
def test_checks_change_nothing_in_many_kernels(kernel: RandomKernel) -> None:
    _run(kernel)
