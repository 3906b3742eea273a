"""The recorded launches that the model of GPU times is fitted to."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from ttools.core.compilation.machine_code import read_machine_code
from ttools.profiler.gpu_time.model import Constants, seconds_of
from ttools.profiler.gpu_time.work import work_of

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
import gpu_time_model as model  # noqa: E402
from gpu_points import Point, read_points  # noqa: E402

sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def points() -> list[Point]:
    return read_points(BENCHMARKS / "points" / "h100.json.gz")


def test_points_are_of_many_kernels(points: list[Point]) -> None:
    assert len({each.kernel for each in points}) >= 40
    assert all(each.seconds > 0 for each in points)


def test_the_constants_in_use_are_those_that_fit(points: list[Point]) -> None:
    """Check only a sixth of the launches, which is cheap; in general, errors are below a third."""
    launches = model.Launches.of(points[::6])
    projected = np.asarray(seconds_of(launches.work, Constants()))
    errors = np.abs(np.log(projected / launches.seconds))
    assert np.exp(errors.mean()) < 1.2
    assert np.exp(errors.max()) < 2.4
    found = model.fit(launches)
    again = np.abs(np.log(np.asarray(seconds_of(launches.work, found)) / launches.seconds))
    assert again.mean() <= errors.mean()


def test_launches_together_take_what_each_takes(points: list[Point]) -> None:
    some = points[::40]
    together = np.asarray(seconds_of(model.Launches.of(some).work, Constants()))
    for point, seconds in zip(some, together, strict=True):
        code = read_machine_code(point.sass)
        own = work_of(point.counts, code, point.blocks, point.accesses, point.device)
        assert seconds_of(own, Constants()) == pytest.approx(seconds)
