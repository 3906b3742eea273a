"""Fixtures of the differential tests, most of which run under both schedules of the engine.

In `make ci-full`, the eager engine runs them, too; its results must agree with the native ones.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# With `--import-mode=importlib`, pytest does not add this folder to the path.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=["fused", "materialised", pytest.param("eager", marks=pytest.mark.slow)])
def schedule(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run the test's kernels with the fused schedule, the materialised one, or the eager engine."""
    from ttools.interpreter import interpret

    # Users run fused code at level 2, so that is tested; materialised code compiles faster at 0.
    monkeypatch.setenv("TTOOLS_OPT", "0" if request.param == "materialised" else "2")
    if request.param == "eager":
        if request.node.get_closest_marker("native_only"):
            pytest.skip("the test is marked native_only: eager programs run one after another")
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
