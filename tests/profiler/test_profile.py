"""Frames, bounds and devices of a profiled run."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import ttools.profiler
from ttools.core.errors import UsageError
from ttools.core.gpus.devices import Device, read_device
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.profiler import ProfileAnalysis, profile
from ttools.profiler.counting.counts import LineCounts, WorkCounts
from ttools.profiler.gpu_time.roofline import assumptions_of, bound, condition_of
from ttools.profiler.report.html import write_page


@triton.jit
def scale_kernel(x_ptr, n, factor, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(x_ptr + offs, x * factor, mask=offs < n)


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 32})], key=["n"])
@triton.jit
def tuned_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) + 1.0, mask=offs < n)


def test_frame_has_a_row_per_kernel_and_configuration() -> None:
    x = torch.ones(1000)
    with profile(gpu="h100") as prof:
        for n in (1000, 1000, 500):
            scale_kernel[(4,)](x, n, 2.0, BLOCK=256)
        tuned_kernel[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, 1000)
    analysis = prof.analyse()
    frame = analysis.frame.set_index("kernel")
    assert set(frame.index) == {"scale_kernel", "tuned_kernel"}
    scale = frame.loc["scale_kernel"]
    assert (scale["launches"], scale["config"]) == (3, "")
    assert scale["bytes"] == pytest.approx(8 * 2500 / 3)
    assert scale["unique_bytes"] == scale["bytes"]
    assert scale["flops"] == 1024
    assert scale["masked_share"] == pytest.approx(1 - 2500 / 3072)
    assert scale["bound_s"] == pytest.approx(8 * 2500 / 3 / 3350e9)
    assert scale["limited_by"] == "memory"
    assert scale["min_s"] <= scale["median_s"] <= scale["p95_s"] <= scale["max_s"]
    assert frame["share"].sum() == pytest.approx(1.0)
    assert frame.loc["tuned_kernel", "config"].startswith("BLOCK=64")
    assert list(analysis.frame["total_s"]) == sorted(analysis.frame["total_s"], reverse=True)
    assert {inspection.source.name for inspection in analysis.inspections} == {
        "scale_kernel",
        "tuned_kernel",
    }
    assert analysis.notes == {}


def test_lines() -> None:
    x = torch.ones(1000)
    with profile() as prof:
        for _ in range(2):
            scale_kernel[(4,)](x, 1000, 2.0, BLOCK=256)
    analysis = prof.analyse()
    every = analysis.lines[analysis.lines["executions"] > 0]
    first = scale_kernel.starting_line_number
    # The line of offsets has no counted work, but runs in four programs of two launches.
    assert list(every["line"] - first) == [2, 3, 4]
    assert list(every["executions"]) == [8, 8, 8]
    lines = every[1:].reset_index()
    assert list(lines["loaded"]) == [8000, 0]
    assert list(lines["stored"]) == [0, 8000]
    assert list(lines["flops"]) == [0, 2048]
    assert lines["operations"][1] == "2,048 fp32"
    assert "bound_s" not in analysis.frame.columns
    assert analysis.inspections == ()


@triton.jit
def hash_kernel(x_ptr, out_ptr, rounds, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    for _ in range(rounds):
        x = x ^ (x >> 3)
    tl.store(out_ptr + offs, x)


def test_lines_of_integers_run_as_often_as_their_loop() -> None:
    x = torch.arange(256, dtype=torch.int32)
    with profile() as prof:
        for rounds in (10, 30):
            hash_kernel[(2,)](x, torch.empty_like(x), rounds, BLOCK=128)
    analysis = prof.analyse()
    lines = analysis.lines.set_index(analysis.lines["line"] - hash_kernel.starting_line_number)
    assert lines.loc[5, "executions"] == 2 * (10 + 30)
    assert lines.loc[3, "executions"] == lines.loc[6, "executions"] == 2 * 2
    assert "80 times" in write_page(analysis)


@triton.jit
def uneven_kernel(x_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    for _ in range(300):
        x = x * 0.999 + 0.25
    tl.store(x_ptr + offs, x - 1.0)


def test_times_of_lines_are_shares_of_the_kernels() -> None:
    x = torch.ones(1 << 14)
    expected = torch.ones(1 << 14)
    with profile(line_times=False) as without:
        for _ in range(3):
            uneven_kernel[(16,)](expected, BLOCK=1024)
    with profile(line_times=True) as prof:
        for _ in range(3):
            uneven_kernel[(16,)](x, BLOCK=1024)
    assert torch.equal(x, expected)
    analysis = prof.analyse()
    lines = analysis.lines.sort_values("time_s", ascending=False, ignore_index=True)
    assert lines["line"][0] == uneven_kernel.starting_line_number + 5
    assert lines["time_share"][0] > 0.5
    (total,) = analysis.frame["total_s"]
    assert lines["time_s"].sum() <= 1.001 * total
    assert list(lines["time_s"] / total) == pytest.approx(list(lines["time_share"]))
    assert without.analyse().lines["time_s"].isna().all()
    assert re.search(r"about \d+\.\d% of the CPU time; 14,400 times", write_page(analysis))
    assert len(analysis.samples) == len(without.analyse().samples) == 3


def test_lines_without_times_have_a_reason() -> None:
    x = torch.ones(64)
    with profile(line_times=True) as prof:
        waiting_kernel[(4,)](torch.zeros(1, dtype=torch.int32), x)
    assert x[0] == 5.0
    analysis = prof.analyse()
    assert analysis.notes["waiting_kernel"] == (
        "times of lines in a kernel whose programs wait for each other"
    )
    assert analysis.lines["time_share"].isna().all()


def test_a_first_launch_runs_twice_and_later_ones_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a first launch once for the counts and once for the times."""
    grids: list[tuple[int, ...]] = []
    original = KernelLaunch.execute

    def execute(self: KernelLaunch, *args: Any, **kwargs: Any) -> Any:
        grids.append(tuple(self.grid)[:1])
        return original(self, *args, **kwargs)

    monkeypatch.setattr(KernelLaunch, "execute", execute)
    x, bins, count = torch.ones(1 << 14), torch.zeros(4, dtype=torch.int32), torch.zeros(1)
    with profile(on="cpu"):
        for grid in (16, 16, 8, 16):
            uneven_kernel[(grid,)](x, BLOCK=1024)
            scale_kernel[(grid,)](x, 1000, 2.0, BLOCK=256)
    assert grids.count((16,)) == 2 * (2 + 1 + 1)
    assert grids.count((8,)) == 2 * 2
    grids.clear()
    values = torch.arange(1 << 12, dtype=torch.int32)
    with profile(on="cpu"):
        counter_kernel[(4,)](values, bins, count, BLOCK=1024, BINS=4)
    assert len(grids) == 2


@triton.jit
def waiting_kernel(lock_ptr, x_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(x_ptr, tl.load(x_ptr) + 1.0)
    tl.atomic_xchg(lock_ptr, 0)


def test_only_selects_kernels_and_decorators_work() -> None:
    prof = profile(only=["scale_kernel"])

    @prof
    def run() -> None:
        x = torch.ones(64)
        scale_kernel[(1,)](x, 64, 2.0, BLOCK=64)
        tuned_kernel[(1,)](x, 64)

    run()
    analysis = prof.analyse()
    assert list(analysis.frame["kernel"]) == ["scale_kernel"]
    assert analysis.launches == 1


def test_an_empty_run_has_empty_frames() -> None:
    with profile(gpu="a100") as prof:
        pass
    analysis = prof.analyse()
    assert len(analysis.frame) == len(analysis.lines) == 0
    assert "limited_by" in analysis.frame.columns


def counts(operations: dict[str, int], unique: int) -> WorkCounts:
    total = LineCounts(None)
    total.operations.update(operations)
    return WorkCounts(1, total, (), unique_loaded=unique)


def test_the_roofline_uses_the_longest_part() -> None:
    device = read_device("h100")
    limit = bound(counts({"dot fp16": 989_400_000_000, "fp32": 66_900_000}, 3350), device)
    assert limit.limited_by == "dot fp16"
    assert limit.seconds == pytest.approx(1e-3)
    assert limit.parts == pytest.approx({"memory": 1e-9, "dot fp16": 1e-3, "fp32": 1e-6})
    limit = bound(counts({"library": 10**15}, 3350), device)
    assert limit.limited_by == "memory"
    assert limit.seconds == pytest.approx(1e-9)


def test_figures_without_a_source_are_marked() -> None:
    h20, h100 = read_device("h20"), read_device("h100")

    def rows(*limits: object) -> list[dict[str, object]]:
        return [{"kernel": "k", "limited_by": limit, "updates": 3.0} for limit in limits]

    assert assumptions_of(h100, rows("memory", "dot f8E5M2x3")) == condition_of(h100)
    assumptions = assumptions_of(h20, rows("dot bf16x3", float("nan"), "memory"))
    assert assumptions == (
        f"{condition_of(h20)}; bounds on h20 by dot bf16x3 and memory use figures that its "
        f"vendor does not confirm ({h20.source})"
    )


def test_wrong_arguments() -> None:
    with pytest.raises(UsageError, match="no GPU `h10`; did you mean `h100`"):
        profile(gpu="h10")
    with pytest.raises(UsageError, match="must be a list of kernel names"):
        profile(only="kernel")  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="no attribute 'profiler'"):
        _ = ttools.profiler.profiler


@triton.jit
def counter_kernel(x_ptr, bins_ptr, count_ptr, BLOCK: tl.constexpr, BINS: tl.constexpr):
    value = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(bins_ptr + value % BINS, 1)
    tl.atomic_add(count_ptr, 1.0)


def test_atomics_on_one_address_bound_a_launch() -> None:
    x = torch.arange(1 << 16, dtype=torch.int32)
    bins, count = torch.zeros(4, dtype=torch.int32), torch.zeros(1, dtype=torch.float64)
    device = read_device("a100")
    measured = {"atomics on one address (i32)": 1e9, "atomics on one address (f64)": 1e6}
    measured_device = replace(device, name="mine", peaks={**device.peaks, **measured})

    def profiled(device: Device) -> ProfileAnalysis:
        with profile(on="cpu", device=device, line_times=False) as prof:
            counter_kernel[(64,)](x, bins, count, BLOCK=1024, BINS=4)
        return prof.analyse()

    analysis = profiled(measured_device)
    (counts,) = (sample.counts for sample in analysis.samples)
    assert counts is not None
    assert counts.updates == {"i32": 64 * 1024 / 4, "f64": 64}
    (row,) = analysis.frame.to_dict("records")
    assert (row["limited_by"], row["updates"]) == ("atomics on one address", 16384)
    # The atomic updates of the counter: 64 take longer than 16,384 of the faster type.
    assert row["bound_s"] == pytest.approx(64 / 1e6)
    assert assumptions_of(measured_device, [row]) == condition_of(measured_device)
    (row,) = profiled(device).frame.to_dict("records")
    assert row["limited_by"] == "memory"
    assert assumptions_of(device, [row]) == (
        f"{condition_of(device)}; atomics update an element 16,384 times in counter_kernel; "
        "the bounds leave this out, because the rate of such updates on a100 is unknown"
    )


def test_only_the_important_of_many_signatures_are_analysed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("signatures", "analysis"):
        monkeypatch.setattr(f"ttools.profiler.report.{module}.MOST", 2)
    x = torch.zeros(4096)
    with profile(on="cpu", gpu="h100", line_times=False) as prof:
        for programs, launches in ((1, 9), (2, 1), (8, 1), (4, 3)):
            for _ in range(launches):
                scale_kernel[(programs,)](x, 4096, 1.0, BLOCK=64)
    analysis = prof.analyse()
    signatures = analysis.signatures.set_index("grid")
    assert set(signatures.index[signatures["projected_s"].notna()]) == {"4", "1"}
    assert analysis.notes["scale_kernel"] == (
        "of its 4 grids and shapes, only the 2 that request the most bytes were analysed; "
        "projections and advice refer to these"
    )
