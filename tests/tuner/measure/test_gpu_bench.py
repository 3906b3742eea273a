"""The number of samples that a GPU takes of a configuration, with a fake timer."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ttools.tuner.measure.gpu_bench import FEWEST, FIRST, MOST, GpuBench
from ttools.tuner.measure.timing import Timing

#: The fake timer ignores what is launched.
ANY: Any = None


class Timer:
    """Returns a configured time for each launch."""

    def __init__(self) -> None:
        self.each = 0.0

    def warm_up(self, prepare: Any, work: Any) -> None:
        pass

    def seconds(self, prepare: Any, work: Any, count: int) -> list[float]:
        return [self.each] * count

    def seconds_in_graph(self, prepare: Any, work: Any, count: int) -> list[float]:
        return [self.each] * count


def bench_of(timing: Timing) -> tuple[GpuBench, Timer]:
    bench: Any = object.__new__(GpuBench)
    bench._timer = timer = Timer()
    bench._timing, bench._least = timing, math.inf
    bench._parts = lambda candidate: (None, None)
    return bench, timer


@pytest.mark.parametrize(
    ("times", "counts"),
    [
        ([10e-6], [MOST]),
        ([1e-3], [FEWEST]),
        ([1e-3, 1.4e-3, 1.6e-3, 0.5e-3, 1e-3], [FEWEST, FEWEST, FIRST, FEWEST, FIRST]),
        ([40e-6, 70e-6], [MOST, FIRST]),
    ],
)
def test_configurations_that_cannot_win_get_few_samples(
    times: list[float], counts: list[int]
) -> None:
    bench, timer = bench_of(Timing())
    sample_counts = []
    for timer.each in times:
        sample_counts.append(len(bench._sample(ANY)))
    assert sample_counts == counts


def test_the_duration_of_a_decorator_is_used() -> None:
    bench, timer = bench_of(Timing(rep=20.0))
    for timer.each in (1e-3, 2e-3):
        assert len(bench._sample(ANY)) == round(20e-3 / timer.each)
