"""Times of a trace, and their joining to counted launches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ttools.core.errors import UsageError
from ttools.profiler import profile
from ttools.profiler.counting.counts import LaunchCounts, LineCounts
from ttools.profiler.gpu.counted_launches import GpuLaunch
from ttools.profiler.gpu.proton import KernelTime, kernel_times
from ttools.profiler.gpu.session import join


def launch(kernel: str, programs: int) -> GpuLaunch:
    counts = LaunchCounts(programs, LineCounts(None), ())
    return GpuLaunch(kernel=kernel, grid=(programs,), counts=counts)


def times(*kernels: str) -> list[KernelTime]:
    return [KernelTime(kernel, float(n), 1e-6 * (n + 1)) for n, kernel in enumerate(kernels)]


def test_times_of_a_trace_are_in_order(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "kernel", "name": "b", "ts": 20.0, "dur": 3.0},
        {"ph": "X", "cat": "kernel", "name": "a", "ts": 10.0, "dur": 2.5},
        {"ph": "X", "cat": "scope", "name": "outer", "ts": 0.0, "dur": 100.0},
        {"ph": "M", "name": "process_name"},
    ]
    path = tmp_path / "t.chrome_trace"
    path.write_text(json.dumps({"traceEvents": events}))
    found = kernel_times(path)
    assert [(each.kernel, each.seconds) for each in found] == [("a", 2.5e-6), ("b", 3e-6)]


@pytest.mark.parametrize("text", ["", "no json", "[1"])
def test_files_that_are_no_trace(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.chrome_trace"
    path.write_text(text)
    with pytest.raises(UsageError, match="cannot read the trace"):
        kernel_times(path)


def test_the_nth_time_of_a_kernel_belongs_to_its_nth_launch() -> None:
    notes: dict[str, str] = {}
    launches = [launch("a", 1), launch("b", 7), launch("a", 2)]
    found = join(times("a", "library", "b", "a"), launches, notes)
    assert [(s.kernel, s.grid) for s in found] == [
        *(("a", (1,)), ("library", ()), ("b", (7,)), ("a", (2,)))
    ]
    assert found[1].counts is None
    assert notes == {}


def test_replayed_launches_share_equal_counts() -> None:
    notes: dict[str, str] = {}
    one = launch("a", 4)
    found = join(times("a", "a", "a"), [one], notes)
    assert [s.counts for s in found] == [one.counts] * 3
    assert notes == {}


def test_counts_that_cannot_be_joined_are_left_out() -> None:
    notes: dict[str, str] = {}
    found = join(times("a", "a", "a"), [launch("a", 4), launch("a", 5)], notes)
    assert [s.counts for s in found] == [None] * 3
    assert notes == {"a": "2 launches but 3 times, so counts are left out"}


def test_without_a_gpu_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ttools.profiler.api.gpu_usable", lambda: False)
    with pytest.raises(UsageError, match="there is no GPU here"):
        profile(on="gpu")
    assert profile().place == "the CPU"
    with pytest.raises(UsageError, match="on='tpu': must be auto, cpu or gpu"):
        profile(on="tpu")  # type: ignore[arg-type]
