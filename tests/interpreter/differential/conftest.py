"""Fixtures of the differential tests: every test runs under both schedules unless it says not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Tests are imported without packages; the modules they share lie beside them.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=["fused", "materialised"])
def schedule(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the test's kernels under one schedule: the fast one, or its oracle."""
    from ttools.interpreter import interpret

    with interpret(schedule=request.param):
        yield request.param


@pytest.fixture
def native() -> Iterator[None]:
    """Run the test's kernels natively under the default schedule, on GPU machines too."""
    from ttools.interpreter import interpret

    with interpret():
        yield
