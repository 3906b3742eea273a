"""Tests of profiles on a real GPU, with Proton's times and counts, from the API and the command."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.errors import UsageError
from ttools.profiler import profile
from ttools.profiler.view.file import read
from ttools.profiler.view.metrics import columns
from ttools.profiler.view.node_table import Selection, rows

pytestmark = pytest.mark.gpu


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    total = tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, total, mask=mask)


@triton.jit
def length_kernel(lengths_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, tl.load(lengths_ptr + row), BLOCK):
        total += tl.load(x_ptr + start + tl.arange(0, BLOCK))
    tl.store(out_ptr + row, tl.sum(total, 0))


def test_times_and_counts(tmp_path: Path) -> None:
    """Compare times with other measurements of the same launches.

    Absolute times would depend on other processes, which may use the GPU at the same time.
    """
    import triton.profiler as proton

    n, count = 1 << 24, 20
    x, y = torch.rand(n, device="cuda"), torch.rand(n, device="cuda")
    out = torch.empty_like(x)
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    add_kernel[(n // 1024,)](x, y, out, n, BLOCK=1024)  # compile outside of the profile
    with profile() as prof:
        proton.start(str(tmp_path / "mine"))
        events[0].record()
        for event in events[1:]:
            add_kernel[(n // 1024,)](x, y, out, n, BLOCK=1024)
            event.record()
        proton.finalize()
        torch.matmul(x.view(4096, 4096), y.view(4096, 4096))
    assert torch.equal(out, x + y)
    assert prof.timed_on == "the GPU"
    analysis = prof.analyse()
    frame = analysis.frame.set_index("kernel")
    row = frame.loc["add_kernel"]
    assert row["launches"] == count
    assert (row["flops"], row["unique_bytes"]) == (n, 12 * n)
    # The launches cannot be faster than the bound, and an addition is nearly as fast.
    assert 0.3 < row["bound_s"] / row["min_s"] <= 1.05
    # The program's own session of Proton measures the same total time.
    (mine,) = (f for _, f in read(tmp_path / "mine.hatchet").root.walk() if f.name == "add_kernel")
    assert mine.total("count") == count
    assert mine.total("time") == pytest.approx(row["total_s"], rel=1e-3)
    # The driver's events enclose each kernel, and some of them closely.
    between = [a.elapsed_time(b) / 1e3 for a, b in pairwise(events)]
    own = [s.seconds for s in analysis.samples if s.kernel == "add_kernel"]
    assert all(kernel < around + 2e-6 for kernel, around in zip(own, between, strict=True))
    near = min(around / kernel for kernel, around in zip(own, between, strict=True))
    assert near < 1.25
    # Kernels of libraries are timed but not counted.
    library_rows = frame.drop("add_kernel")
    assert len(library_rows) >= 1
    assert library_rows["flops"].isna().all()


def test_counts_that_depend_on_memory_use_its_contents_at_launch() -> None:
    lengths = torch.tensor([32, 64], dtype=torch.int32, device="cuda")
    x, out = torch.ones(64, device="cuda"), torch.empty(2, device="cuda")
    with profile(only=["length_kernel"]) as prof:
        for n in (64, 32, 0):
            lengths[0] = n
            length_kernel[(2,)](lengths, x, out, BLOCK=32)
    assert out.tolist() == [0.0, 64.0]
    analysis = prof.analyse()
    counts = [s.counts for s in analysis.samples if s.counts]
    assert [c.total.bytes for c in counts] == [8 + 4 * (n + 64) + 8 for n in (64, 32, 0)]
    row = analysis.frame.iloc[0]
    assert (row["told_by"], row["counted"]) == ("counts", 3)
    assert row["bytes"] == 8 + 4 * (32 + 64) + 8


def test_counts_of_replays_are_estimated_from_memory_before_them() -> None:
    lengths = torch.tensor([32, 0], dtype=torch.int32, device="cuda")
    x, out = torch.ones(1024, device="cuda"), torch.empty(2, device="cuda")
    length_kernel[(2,)](lengths, x, out, BLOCK=32)  # compile outside of the profile
    graph = torch.cuda.CUDAGraph()
    with profile() as prof:
        with torch.cuda.graph(graph):
            length_kernel[(2,)](lengths, x, out, BLOCK=32)
            lengths.add_(32)
        for _ in range(10):
            graph.replay()
        torch.cuda.synchronize()
    analysis = prof.analyse()
    row = analysis.frame.set_index("kernel").loc["length_kernel"]
    assert row["launches"] == 10
    assert row["bytes"] == pytest.approx(16 + 4 * sum(32 + 64 * n for n in range(10)) / 10)
    assert (row["told_by"], row["counted"]) == ("estimate", 0)
    assert row["bytes_min"] < row["bytes"] < row["bytes_max"]
    assert not [hint for hint in analysis.advice if hint.kernel == "length_kernel"]


def test_without_counts_launches_are_timed() -> None:
    x = torch.rand(1000, device="cuda")
    with profile(counts=False) as prof:
        add_kernel[(1,)](x, x, torch.empty_like(x), 1000, BLOCK=1024)
    row = prof.analyse().frame.set_index("kernel").loc["add_kernel"]
    assert row["launches"] == 1
    assert row["median_s"] > 0
    assert "flops" not in row.dropna()


@triton.autotune([triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 1024})], key=["n"])
@triton.jit
def tuned_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) + 1.0, mask=offs < n)


def test_autotuned_kernels_have_a_row_per_configuration() -> None:
    n = 1 << 20
    x = torch.zeros(n, device="cuda")
    with profile(only=["tuned_kernel"], trials=True) as prof:
        for _ in range(3):
            tuned_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, n)
    frame = prof.analyse().frame
    assert sorted(config.split(",")[0] for config in frame["config"]) == ["BLOCK=1024", "BLOCK=256"]
    assert (frame["registers"] > 0).all()
    assert (frame["occupancy"] > 0).all()
    assert (frame["flops"] == n).all()


def test_scopes_user_metrics_and_the_programs_own_session(tmp_path: Path) -> None:
    import triton.profiler as proton

    n = 1 << 16
    x, out = torch.rand(n, device="cuda"), torch.empty(n, device="cuda")
    with profile() as prof:
        proton.start(str(tmp_path / "mine"))
        with proton.scope("outer", {"flops": 1e9}):
            add_kernel[(n // 1024,)](x, x, out, n, BLOCK=1024)
        proton.finalize()
        add_kernel[(n // 1024,)](x, x, out, n, BLOCK=1024)
    analysis = prof.analyse()
    assert [s.stack for s in analysis.samples if s.kernel == "add_kernel"] == [("outer",), ()]
    assert analysis.tree.children["outer"].flops == 1e9
    mine = json.loads((tmp_path / "mine.hatchet").read_text())
    assert "add_kernel" in json.dumps(mine)
    view = read(tmp_path / "mine.hatchet")
    assert view.root.total("count") == 1.0
    selected = columns(["time/us", "util"], [view])
    assert len(rows([view], selected, Selection())) >= 3


@pytest.mark.parametrize("data", ["trace", "tree"])
def test_options_of_proton(data: Any, tmp_path: Path) -> None:
    import triton.profiler as proton

    n = 1 << 16
    x, out = torch.rand(n, device="cuda"), torch.empty(n, device="cuda")
    with profile(data=data, proton_file=tmp_path / "kept") as prof, proton.scope("outer"):
        for _ in range(5):
            add_kernel[(n // 1024,)](x, x, out, n, BLOCK=1024)
    analysis = prof.analyse()
    row = analysis.frame.set_index("kernel").loc["add_kernel"]
    assert (row["launches"], row["flops"]) == (5, n)
    assert row["mean_s"] > 0
    assert (row["median_s"] > 0) == (data == "trace")
    assert analysis.notes == {}
    view = read(tmp_path / "kept")
    paths = [path for path, frame in view.root.walk() if frame.name == "add_kernel"]
    assert paths == [("ROOT", "outer", "add_kernel")]
    assert view.root.total("count") == 5.0


def launch_flops(grid: Any, kernel: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"flops32": 3.0 * arguments["n"]}


@triton.jit(launch_metadata=launch_flops)
def metadata_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, 1.0, mask=offs < n)


@pytest.mark.parametrize("hook", [None, "triton"])
def test_counts_from_launch_metadata(hook: Any, tmp_path: Path) -> None:
    x = torch.empty(4096, device="cuda")
    with profile(data="tree", hook=hook, proton_file=tmp_path / "kept") as prof:
        metadata_kernel[(4,)](x, 4096, BLOCK=1024)
    row = prof.analyse().frame.set_index("kernel").loc["metadata_kernel"]
    assert (row["flops"], row["told_by"]) == (3 * 4096, "kernel")
    assert ("flops32" in (tmp_path / "kept").read_text()) == (hook == "triton")


def launch_name(grid: Any, kernel: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"name": f"fill [n={arguments['n']}]", "bytes": 4.0 * arguments["n"]}


@triton.jit(launch_metadata=launch_name)
def named_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, 1.0, mask=offs < n)


@pytest.mark.parametrize("data", ["trace", "tree"])
def test_names_from_launch_metadata(data: Any, tmp_path: Path) -> None:
    import triton.profiler as proton

    x = torch.empty(4096, device="cuda")
    with profile(data=data) as prof:
        proton.start(str(tmp_path / "mine"), hook="triton")
        for _ in range(2):
            named_kernel[(4,)](x, 4096, BLOCK=1024)
        proton.finalize()
    analysis = prof.analyse()
    row = analysis.frame.set_index("kernel").loc["named_kernel"]
    assert (row["launches"], row["bytes"], row["told_by"]) == (2, 4 * 4096, "kernel")
    assert "fill [n=4096]" in (tmp_path / "mine.hatchet").read_text()
    assert analysis.notes == {}


def test_graphs_are_reported_as_their_launches() -> None:
    n = 1 << 16
    x, out = torch.rand(n, device="cuda"), torch.empty(n, device="cuda")
    with profile() as prof:
        for m in (n, n // 2):
            add_kernel[(n // 1024,)](x, x, out, m, BLOCK=1024)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for m in (n, n // 2):
                add_kernel[(n // 1024,)](x, x, out, m, BLOCK=1024)
        for _ in range(3):
            graph.replay()
    own = [s for s in prof.analyse().samples if s.kernel == "add_kernel"]
    assert len(own) == 8
    assert [s.counts.total.loaded for s in own if s.counts] == [8 * n, 4 * n] * 4


@triton.jit
def accumulate_kernel(x_ptr, total_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, tl.load(x_ptr + offs) + 1.0)
    tl.atomic_add(total_ptr, 1)


def test_repetitions_restore_memory() -> None:
    x, total = torch.zeros(4096, device="cuda"), torch.zeros(1, dtype=torch.int32, device="cuda")
    with profile(warmup=3, iterations=10) as prof:
        for _ in range(2):
            accumulate_kernel[(4,)](x, total, BLOCK=1024)
    assert (x.unique().tolist(), total.tolist()) == ([2.0], [8])
    analysis = prof.analyse()
    frame = analysis.frame.set_index("kernel")
    row = frame.loc["accumulate_kernel"]
    assert (row["launches"], row["flops"], row["told_by"]) == (20, 4096, "counts")
    # Memory is restored without further kernels.
    assert list(frame.index) == ["accumulate_kernel"]
    assert analysis.notes == {}


def test_launches_are_counted_without_copies_and_calls_are_timed() -> None:
    n = 1 << 16
    x, out = torch.rand(n, device="cuda"), torch.empty(n, device="cuda")
    y = torch.rand(n, device="cuda")
    with profile(only=["add_kernel"]) as prof:
        for other in (x, y, x, y):
            add_kernel[(n // 1024,)](x, other, out, n, BLOCK=1024)
        # The input tensor has been freed by the time launches are counted.
        add_kernel[(n // 2048,)](torch.rand(n, device="cuda"), y, out, n // 2, BLOCK=1024)
    analysis = prof.analyse()
    unique = [s.counts.unique_loaded for s in analysis.samples if s.counts]
    assert unique == [4 * n, 8 * n, 4 * n, 8 * n, 4 * n]
    row = analysis.frame.set_index("kernel").loc["add_kernel"]
    assert 1e-6 < row["overhead_min_s"] <= row["overhead_median_s"] < 1e-3
    assert analysis.notes == {}


def test_a_graph_of_kernels_that_never_ran_before_is_counted() -> None:
    n = 1 << 16
    x, out = torch.rand(n, device="cuda"), torch.empty(n, device="cuda")
    add_kernel[(1,)](x, x, out, n, BLOCK=1024)  # compile outside of the profile
    with profile() as prof:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            add_kernel[(n // 1024,)](x, x, out, n, BLOCK=1024)
        graph.replay()
    (sample,) = [s for s in prof.analyse().samples if s.kernel == "add_kernel"]
    assert sample.counts is not None
    assert sample.counts.total.loaded == 8 * n


@pytest.mark.parametrize("data", ["trace", "tree"])
def test_copies_and_fills_of_the_program_are_shown_and_those_of_counting_are_not(data: Any) -> None:
    n, count = 1 << 22, 3
    host = torch.ones(n, pin_memory=True)
    x, out = torch.empty(n, device="cuda"), torch.empty(n, device="cuda")
    lengths = torch.full((4,), 4096, dtype=torch.int32, device="cuda")
    driver = ctypes.CDLL("libcuda.so.1")
    with profile(data=data) as prof:
        for _ in range(count):
            x.copy_(host, non_blocking=True)
            # The counts depend on the contents of memory, so counting copies them on the GPU.
            length_kernel[(4,)](lengths, x, out, BLOCK=1024)
            out.copy_(x)
            assert (
                driver.cuMemsetD8Async(ctypes.c_uint64(out.data_ptr()), 0, ctypes.c_size_t(n), 0)
                == 0
            )
            host.copy_(x, non_blocking=True)
        torch.cuda.synchronize()
    frame = prof.analyse().frame.set_index("kernel")
    assert "copies and fills of memory are not timed" not in prof.analyse().unseen
    expected = {"host to device": 4 * n, "device to device": 4 * n, "device to host": 4 * n}
    for direction, nbytes in expected.items():
        row = frame.loc[f"copy {direction}"]
        assert (row["kind"], row["launches"], row["bytes"]) == ("copy", count, nbytes)
        assert 0.1 < row["gbytes"] < 10_000
    assert (frame.loc["fill", "kind"], frame.loc["fill", "launches"]) == ("fill", count)
    assert frame.loc["fill", "bytes"] == n
    assert (frame["kind"] == "kernel").sum() == 1
    if data == "trace":
        # The operations use one stream, so they run in the order of the program.
        names = [
            sample.kernel
            for sample in sorted(prof.analyse().samples, key=lambda sample: sample.begin)
        ]
        launches = ["copy host to device", "length_kernel", "copy device to device", "fill"]
        assert names == [*launches, "copy device to host"] * count


def test_totals_exclude_warm_up_launches() -> None:
    with pytest.raises(UsageError, match="warm-up launches cannot be separated"):
        profile(data="tree", warmup=1)


@pytest.mark.parametrize("data", ["trace", "tree"])
@pytest.mark.parametrize("order", ["inside", "around", "overlapping"])
def test_sessions_of_the_program_and_of_the_profiler(data: Any, order: str, tmp_path: Path) -> None:
    import triton.profiler as proton

    n = 1 << 16
    x, out = torch.rand(n, device="cuda"), torch.empty(n, device="cuda")

    def launch() -> None:
        with proton.scope("outer", {"flops": 1e6}):
            add_kernel[(n // 1024,)](x, x, out, n, BLOCK=1024)

    if order == "around":
        proton.start(str(tmp_path / "mine"), hook="triton")
    with profile(data=data) as prof:
        if order != "around":
            proton.start(str(tmp_path / "mine"), hook="triton")
        launch()
        proton.deactivate()
        launch()
        proton.activate()
        launch()
        if order == "inside":
            proton.finalize()
    if order != "inside":
        launch()
        proton.finalize()
    assert prof.analyse().frame.set_index("kernel").loc["add_kernel", "launches"] == 3
    view = read(tmp_path / "mine.hatchet")
    assert view.root.total("count") == (2.0 if order == "inside" else 3.0)


def test_python_stacks() -> None:
    x = torch.rand(1024, device="cuda")
    with profile(context="python", counts=False) as prof:
        add_kernel[(1,)](x, x, torch.empty_like(x), 1024, BLOCK=1024)
    (sample,) = [s for s in prof.analyse().samples if s.kernel == "add_kernel"]
    assert sample.stack[-1].startswith("test_python_stacks (test_profile_on_gpu.py:")


def test_command(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(
        "import torch, triton, triton.language as tl\n"
        "@triton.jit\n"
        "def scale_kernel(x_ptr, BLOCK: tl.constexpr):\n"
        "    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        "    tl.store(x_ptr + offs, tl.load(x_ptr + offs) * 2.0)\n"
        "x = torch.ones(4096, device='cuda')\n"
        "for _ in range(5): scale_kernel[(4,)](x, BLOCK=1024)\n"
        "print(float(x[0]))\n"
    )
    words = ["profile", "--format", "json", "--output", "p.json", "run.py"]
    completed = subprocess.run(
        [sys.executable, "-m", "ttools_entry", *words],
        cwd=tmp_path,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (completed.returncode, completed.stdout) == (0, "32.0\n"), completed.stderr
    data = json.loads((tmp_path / "p.json").read_text())
    assert data["timed_on"] == "GPU"
    (kernel,) = [row for row in data["kernels"] if row["kernel"] == "scale_kernel"]
    assert (kernel["launches"], kernel["bytes"]) == (5, 32768)
    assert data["compiled"][0]["kernel"] == "scale_kernel"
