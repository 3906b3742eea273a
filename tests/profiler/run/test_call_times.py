"""Times of calls on the host: the calls that are timed, and those that are omitted."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.profiler import profile
from ttools.profiler.run.call_times import CallTimes


@triton.jit
def fill_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)


@triton.jit
def zero_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 0.0)


def test_first_and_discarded_calls_are_omitted() -> None:
    times = CallTimes()
    times.took += [("a", 9.0), ("b", 8.0), ("a", 1.0)]
    times.discard()
    times.took += [("a", 7.0), ("a", 2.0), ("b", 3.0), ("unknown", 4.0), ("unknown", 5.0)]
    assert times.grouped({"a": "A", "b": "B"}.get) == {"A": [1.0, 2.0], "B": [3.0]}


def test_code_that_runs_during_a_call_is_omitted() -> None:
    x, times = torch.zeros(16), CallTimes()
    with times.watching(synchronous=True):
        fill_kernel[(1,)](x, BLOCK=16)
        times.leave_out(0.0)
        launch = fill_kernel[lambda meta: (times.leave_out(1e9), (1,))[1]]
        launch(x, BLOCK=16)
    assert [seconds > 0 for _, seconds in times.took] == [True, False]


def test_only_the_first_of_many_calls_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ttools.profiler.run.call_times.MOST_TIMED", 3)
    x, times = torch.zeros(16), CallTimes()
    with times.watching(synchronous=False):
        for _ in range(6):
            fill_kernel[(1,)](x, BLOCK=16)
    fill_kernel[(1,)](x, BLOCK=16)
    assert len(times.took) == 3
    assert "__getitem__" not in vars(type(fill_kernel))


def test_calls_are_not_wrapped_until_another_kernel_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ttools.profiler.run.call_times.MOST_TIMED", 2)
    x, times = torch.zeros(16), CallTimes()
    kind = type(fill_kernel)

    def launch(function: Any, count: int) -> Any:
        for _ in range(count):
            kernel = function[(1,)](x, BLOCK=16)
        return kernel

    with times.watching(synchronous=False):
        compiled = launch(fill_kernel, 3)
        assert "__getitem__" not in vars(kind)
        times.discard()  # of a call that is not timed
        compiled_zero = launch(zero_kernel, 1)  # which would tell that it begins
        times.begin(zero_kernel, compiled_zero)
        times.begin(fill_kernel, compiled)  # has been timed often enough
        launch(fill_kernel, 2)
        launch(zero_kernel, 3)
        assert "__getitem__" not in vars(kind)
    assert [kernel for kernel, _ in times.took] == [
        compiled,
        compiled,
        compiled_zero,
        compiled_zero,
    ]
    seconds_by_kernel = times.grouped({compiled: "fill", compiled_zero: "zero"}.get)
    # The first call of `fill` was timed and may include compilation, that of `zero` was not.
    assert {name: len(seconds) for name, seconds in seconds_by_kernel.items()} == {
        "fill": 1,
        "zero": 2,
    }
    assert "__getitem__" not in vars(kind)


def test_the_frame_has_overheads() -> None:
    x = torch.zeros(16)
    with profile() as prof:
        for _ in range(5):
            fill_kernel[(1,)](x, BLOCK=16)
    (row,) = prof.analyse().frame.to_dict("records")
    assert 0 <= row["overhead_min_s"] <= row["overhead_median_s"] <= row["overhead_p95_s"]
