"""Tests of timing on the CPU through the interfaces of `triton.testing`."""

from __future__ import annotations

import time

import pytest
import triton

from ttools.core.errors import UsageError
from ttools.interpreter.run.benchmark import Event, do_bench


def sleep() -> None:
    time.sleep(0.001)


def test_quantiles_are_in_the_requested_order() -> None:
    median, low, high = do_bench(sleep, warmup=1, rep=20, quantiles=(0.5, 0.2, 0.8))
    assert 1.0 <= low <= median <= high


@pytest.mark.parametrize("mode", ["min", "max", "mean", "median"])
def test_modes_return_one_number(mode: str) -> None:
    assert do_bench(sleep, warmup=0, rep=3, return_mode=mode) >= 1.0


def test_one_quantile_is_a_number_and_all_is_a_list() -> None:
    assert isinstance(do_bench(sleep, rep=3, quantiles=[0.5]), float)
    assert len(do_bench(sleep, rep=5, return_mode="all")) >= 1


def test_small_budgets_time_one_call() -> None:
    calls: list[int] = []
    do_bench(lambda: calls.append(sleep() or 1), warmup=0, rep=0)
    assert len(calls) == 3  # to compile, to estimate the time, and to measure


@pytest.mark.parametrize("options", [{"return_mode": "best"}, {"quantiles": [1.5]}])
def test_invalid_options_are_errors(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        do_bench(sleep, rep=1, **options)  # type: ignore[arg-type]


def test_do_bench_of_triton_works_on_the_cpu() -> None:
    assert triton.testing.do_bench(sleep, warmup=1, rep=5) >= 1.0


def test_events_measure_time_once_recorded() -> None:
    start, end = Event(enable_timing=True), Event(enable_timing=True)
    start.record()
    with pytest.raises(UsageError, match="recorded"):
        start.elapsed_time(end)
    end.record()
    assert start.elapsed_time(end) > 0
