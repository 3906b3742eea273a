"""Fixtures of the differential tests: every test runs under both schedules unless it says not.

The eager engine runs them too, in `make ci-full`; it gives what the native one gives.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Tests are imported without packages; the modules they share lie beside them.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=["fused", "materialised", pytest.param("eager", marks=pytest.mark.slow)])
def schedule(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run the test's kernels under one schedule: the fast one, its oracle, or as Python."""
    from ttools.interpreter import interpret

    # The oracle compiles in half the time; LLVM's optimiser is tested by what users run.
    monkeypatch.setenv("TTOOLS_OPT", "0" if request.param == "materialised" else "2")
    if request.param == "eager":
        if request.node.get_closest_marker("native_only"):
            pytest.skip("eager programs run one after another")
        with interpret(engine="eager"):
            yield request.param
    else:
        with interpret(schedule=request.param):
            yield request.param


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run the test's kernels natively under the default schedule, on GPU machines too."""
    from ttools.interpreter import interpret

    monkeypatch.setenv("TTOOLS_OPT", "2")
    with interpret():
        yield
