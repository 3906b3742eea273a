"""How long a GPU times a configuration; the timer is made up."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ttools.tuner.measure.gpu_bench import FEWEST, FIRST, MOST, GpuBench
from ttools.tuner.measure.timing import Timing

#: Whatever is launched, the timer does not ask.
ANY: Any = None


class Timer:
    """Each launch takes as long as it was told."""

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
def test_what_cannot_win_is_timed_no_further(times: list[float], counts: list[int]) -> None:
    bench, timer = bench_of(Timing())
    found = []
    for timer.each in times:
        found.append(len(bench._sample(ANY)))
    assert found == counts


def test_a_decorator_that_says_how_long_is_heeded() -> None:
    bench, timer = bench_of(Timing(rep=20.0))
    for timer.each in (1e-3, 2e-3):
        assert len(bench._sample(ANY)) == round(20e-3 / timer.each)
