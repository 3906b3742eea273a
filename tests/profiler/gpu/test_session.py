"""Times of traces and trees, and their assignment to counted launches."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
import triton.profiler as proton

from ttools.core.errors import UsageError
from ttools.core.spec import LaunchSpec
from ttools.profiler import profile
from ttools.profiler.counting.counts import LineCounts, WorkCounts
from ttools.profiler.gpu.copies import CopyRecorder
from ttools.profiler.gpu.counted_launches import GpuCounting
from ttools.profiler.gpu.equal_launches import CountedWork, MadeCall
from ttools.profiler.gpu.graphs import GraphCalls
from ttools.profiler.gpu.proton import ProtonOptions
from ttools.profiler.gpu.proton_file import KernelTime, kernel_times
from ttools.profiler.gpu.session import GpuSession, idle_sentence, join, join_sums
from ttools.profiler.report.frames import kernel_frame
from ttools.profiler.run.origin import Origin
from ttools.profiler.run.repetition import Repetition
from ttools.profiler.run.trials import Trials


def launch(kernel: str, programs: int, stack: tuple[str, ...] = ()) -> MadeCall:
    counts = WorkCounts(programs, LineCounts(None), ())
    spec = LaunchSpec(kernel=kernel, grid=(programs, 1, 1))
    return MadeCall(CountedWork(spec=spec, counts=counts), stack=stack)


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
    trace_times = kernel_times(path.read_bytes())
    assert [(entry.kernel, entry.seconds) for entry in trace_times] == [("a", 2.5e-6), ("b", 3e-6)]


@pytest.mark.parametrize("text", ["no json", "[1"])
def test_invalid_traces(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.chrome_trace"
    path.write_text(text)
    with pytest.raises(UsageError, match="cannot read"):
        kernel_times(path.read_bytes())


@pytest.mark.parametrize("written", [b"", b"\n"])
def test_a_trace_without_launches_is_an_empty_file(written: bytes) -> None:
    assert kernel_times(written) == []


def test_the_nth_time_of_a_kernel_belongs_to_its_nth_launch() -> None:
    notes: dict[str, str] = {}
    launches = [launch("a", 1), launch("b", 7), launch("a", 2)]
    joined = join(times("a", "library", "b", "a"), launches, notes, Trials())
    assert [(s.kernel, s.grid) for s in joined] == [
        *(("a", (1, 1, 1)), ("library", ()), ("b", (7, 1, 1)), ("a", (2, 1, 1)))
    ]
    assert joined[1].counts is None
    assert notes == {}


def test_replayed_launches_share_equal_counts() -> None:
    notes: dict[str, str] = {}
    counted = launch("a", 4)
    joined = join(times("a", "a", "a"), [counted], notes, Trials())
    assert [s.counts for s in joined] == [counted.launch.counts] * 3
    assert notes == {}


def test_ambiguous_counts_are_omitted() -> None:
    notes: dict[str, str] = {}
    joined = join(times("a", "a", "a"), [launch("a", 4), launch("a", 5)], notes, Trials())
    assert [s.counts for s in joined] == [None] * 3
    assert notes == {"a": "there are 2 launches but 3 times, so counts are left out"}


def trial(kernel: str) -> MadeCall:
    return launch(kernel, 1)._replace(trial=True)


def test_trials_and_kernels_between_them_are_omitted() -> None:
    notes: dict[str, str] = {}
    every = times("own", "reset", "a", "flush", "a", "copy", "a", "own", "b", "lost")
    launches = [*(trial("a"), trial("a"), launch("a", 3)), trial("b")]
    trials = Trials()
    joined = join(every, launches, notes, trials)
    # `reset` is not known to be the autotuner's yet, and `lost` ran after the trials.
    assert [s.kernel for s in joined] == ["own", "reset", "a", "own", "lost"]
    assert (joined[2].grid, joined[2].counts) == ((3, 1, 1), launches[2].launch.counts)
    assert (trials.launches, trials.libraries) == (3, 2)
    assert trials.seconds == pytest.approx(sum(every[n].seconds for n in (2, 3, 4, 5, 8)))
    assert str(trials) == (
        "3 trial launches by autotuners left out, with 2 library kernels between them"
    )
    assert (notes, str(Trials())) == ({}, "")


def test_lanes_have_trials_of_their_own() -> None:
    left, right = (
        replace(item, lane=lane) for item, lane in zip(times("a", "l"), "xy", strict=True)
    )
    trials = Trials()
    assert [s.kernel for s in join([left, right], [trial("a")], {}, trials)] == ["l"]
    assert (trials.launches, trials.libraries) == (1, 0)


def test_ambiguous_trials_are_reported() -> None:
    notes: dict[str, str] = {}
    trials = Trials()
    joined = join(
        times("a", "a", "a", "b", "b"), [trial("a"), launch("a", 2), trial("b")], notes, trials
    )
    assert [s.kernel for s in joined] == ["a", "a", "a"]
    assert trials.launches == 2
    assert list(notes) == ["a"]
    sums = [KernelTime("a", 0.0, 4e-6, launches=2), KernelTime("b", 0.0, 4e-6, launches=2)]
    notes.clear()
    joined = join_sums(sums, [trial("a"), launch("a", 1), trial("b"), trial("b")], notes, trials)
    assert [(s.kernel, s.launches) for s in joined] == [("a", 2)]
    assert trials.launches == 4
    assert notes["a"].startswith("an autotuner's trials cannot be distinguished from its other")


def tree(name: str, *children: object, **metrics: object) -> dict[str, object]:
    named = {key.replace("time", "time (ns)"): value for key, value in metrics.items()}
    return {"frame": {"name": name}, "metrics": named, "children": list(children)}


def test_times_of_a_tree(tmp_path: Path) -> None:
    own = tree("__proton_launch_metadata", tree("helper", time=5, count=1))
    scope = tree("outer", own, tree("a", time=3000, count=3, device_id="0"))
    root = tree("ROOT", scope, tree("b", time=500, count=1), time=0, count=0)
    path = tmp_path / "t.hatchet"
    path.write_text(json.dumps([root, {"CUDA": {"0": {"arch": "90"}}}]))
    tree_times = kernel_times(path.read_bytes())
    assert [(entry.kernel, entry.stack, entry.launches) for entry in tree_times] == [
        *(("a", ("outer",), 3), ("b", (), 1))
    ]
    assert tree_times[0].seconds == pytest.approx(3e-6)


def test_idle_time_is_reported() -> None:
    """Report gaps in which no stream runs a kernel; kernels on two streams overlap."""
    timed = [
        KernelTime("a", 0.0, 1e-3, lane="x"),
        KernelTime("b", 0.5e-3, 1e-3, lane="y"),
        KernelTime("a", 3.5e-3, 0.5e-3, lane="x"),
    ]
    sentence = idle_sentence(timed, "no compiler")
    assert sentence.startswith(
        "copies and fills of memory are not timed, so no figure includes them (no compiler);"
    )
    assert "no kernel ran for 2 of 4 ms (50%)" in sentence
    sentence = idle_sentence(timed, "")
    assert sentence.startswith(
        "between the first and the last kernel, copy or fill, the GPU was idle"
    )
    assert "for 2 of 4 ms (50%)" in sentence
    # Summed times have no gaps.
    for reason in ("", "why"):
        sums = idle_sentence([KernelTime("a", 0.0, 1e-3, launches=2)], reason)
        assert (" ms " in sums, "(why)" in sums) == (False, bool(reason))
        assert idle_sentence([], reason) == sums


def test_sums_take_the_counts_of_equal_launches() -> None:
    notes: dict[str, str] = {}
    times = [
        KernelTime("a", 0.0, 4e-6, stack=("s",), launches=2),
        KernelTime("b", 0.0, 2e-6, launches=2),
    ]
    calls = [launch("a", 4, ("s",)), launch("b", 1), launch("a", 4, ("s",)), launch("b", 2)]
    a, b = join_sums(times, calls, notes, Trials())
    assert (a.launches, a.counts, a.stack) == (2, calls[0].launch.counts, ("s",))
    assert (b.launches, b.counts) == (2, None)
    assert list(notes) == ["b"]
    row = kernel_frame([a, b], None).set_index("kernel").loc["a"]
    assert (row["launches"], row["mean_s"]) == (2, 2e-6)
    assert math.isnan(row["median_s"])
    assert row["programs"] == 4


def test_replays_of_graphs_are_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    class Graph:
        """Replaces torch's graph, which needs a GPU."""

        def capture_begin(self) -> None:
            """Do nothing."""

        def capture_end(self) -> None:
            """Do nothing."""

        def replay(self) -> str:
            return "replayed"

    monkeypatch.setattr("torch.cuda.CUDAGraph", Graph)
    graph = Graph()
    kept: GraphCalls[str] = GraphCalls()
    with kept.watching():
        kept.add("before")
        graph.capture_begin()
        assert kept.capturing
        kept.add("first")
        kept.add("second")
        graph.capture_end()
        assert kept.launches == ["before"]
        assert graph.replay() == "replayed"
        kept.add("between")
        graph.replay()
    assert kept.launches == ["before", "first", "second", "between", "first", "second"]
    graph.replay()
    assert len(kept.launches) == 6


def test_proton_is_only_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="mode is an option of Proton"):
        profile(on="cpu", mode="pcsampling")
    with pytest.raises(UsageError, match="hook is an option of Proton"):
        profile(on="cpu", hook="triton")
    with pytest.raises(UsageError, match="hook='launch': must be triton"):
        profile(hook="launch")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="measures cycles inside kernels"):
        profile(backend="instrumentation")


def test_a_missing_gpu_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ttools.profiler.api.gpu_usable", lambda: False)
    with pytest.raises(UsageError, match="there is no GPU here"):
        profile(on="gpu")
    assert profile().timed_on == "the CPU"
    with pytest.raises(UsageError, match="on='tpu': must be auto, cpu or gpu"):
        profile(on="tpu")  # type: ignore[arg-type]


def telling(grid: Any, kernel: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"flops32": 3 * arguments["n"]}


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 32})], key=["n"])
@triton.jit(launch_metadata=telling)
def tuned_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) + 1.0, mask=offs < n)


def test_launches_without_times() -> None:
    x = torch.zeros(100)
    watch = GpuCounting(None, counts=True, origin=Origin("shadow"))
    with watch.watching():
        tuned_kernel[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](x, 100)
        with proton.scope("outer"):
            tuned_kernel[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](x, 100)
    watch.count()
    assert watch.notes == {}
    trials, last = watch.launches[:-1], watch.launches[-1]
    assert {call.config["BLOCK"] for call in trials if call.config} == {32, 64}
    assert last.stack == ("outer",)
    assert last.metrics == {"flops32": 300}
    assert last.launch.counts is not None
    assert last.launch.counts.total.bytes == 800
    assert last.launch.source == (__file__, tuned_kernel.fn.fn.__code__.co_firstlineno)
    count = len(watch.launches)
    tuned_kernel[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](x, 100)
    assert len(watch.launches) == count


@pytest.fixture
def proton_writes(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that replaces Proton's output by a trace of given kernels."""

    def write(*kernels: str) -> None:
        events = [
            {"ph": "X", "cat": "kernel", "name": name, "ts": n, "dur": 2}
            for n, name in enumerate(kernels)
        ]

        @contextmanager
        def session(stem: Path, options: ProtonOptions, _: CopyRecorder) -> Iterator[None]:
            try:
                yield
            finally:
                options.file(stem).write_text(json.dumps({"traceEvents": events}))

        monkeypatch.setattr("ttools.profiler.gpu.proton.session", session)

    return write


def test_launches_before_a_failure_are_reported(
    proton_writes: Callable[..., None], tmp_path: Path
) -> None:
    proton_writes("plain_kernel", "plain_kernel")
    x, own = torch.zeros(16), GpuSession(None, keep=tmp_path / "kept")

    def fail() -> None:
        with own.running():
            plain_kernel[(1,)](x, BLOCK=16)
            plain_kernel[(1,)](x, BLOCK=16)
            _ = 1 // 0

    with pytest.raises(ZeroDivisionError):
        fail()
    with own.running():
        plain_kernel[(2,)](x, BLOCK=16)
        assert own.seen == 3
        plain_kernel[(2,)](x, BLOCK=16)
    own.finish()
    samples = own.samples
    assert [s.grid for s in samples] == [(1, 1, 1), (1, 1, 1), (2, 1, 1), (2, 1, 1)]
    assert [s.counts.total.stored for s in samples if s.counts] == [64, 64, 128, 128]
    assert (own.notes, len(own.samples)) == ({}, 4)
    assert len(json.loads((tmp_path / "kept").read_text())["traceEvents"]) == 2


def calling_it(grid: Any, kernel: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"name": f"launch of {grid[0]}", "bytes": 5.0}


@triton.jit(launch_metadata=calling_it)
def called_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)


@triton.jit(repr=lambda specialisation: "compiled_as")
def renamed_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)


@pytest.mark.parametrize("only", [None, ["called_kernel", "renamed_kernel"]])
def test_launches_and_kernels_under_other_names(
    proton_writes: Callable[..., None], only: list[str] | None
) -> None:
    proton_writes("launch of 1", "compiled_as", "library", "launch of 2")
    x, own = torch.zeros(16), GpuSession(only)
    with own.running():
        called_kernel[(1,)](x, BLOCK=16)
        renamed_kernel[(3,)](x, BLOCK=16)
        called_kernel[(2,)](x, BLOCK=16)
    own.finish()
    own_samples = [(s.kernel, s.grid[:1]) for s in own.samples if s.kernel != "library"]
    assert own_samples == [
        ("called_kernel", (1,)),
        ("renamed_kernel", (3,)),
        ("called_kernel", (2,)),
    ]
    assert all(s.counts for s in own.samples if s.kernel != "library")
    assert [s.metrics for s in own.samples if s.metrics] == [{"bytes": 5.0}] * 2
    assert (len(own.samples), own.notes) == (4 if only is None else 3, {})


def bench(call: Callable[[], None], quantiles: Any) -> list[float]:
    call()
    call()
    return [1.0, 1.0, 1.0]


@triton.autotune([triton.Config({"BLOCK": size}) for size in (16, 32)], key=["n"], do_bench=bench)
@triton.jit
def tried_kernel(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, 1.0, mask=at < n)


@pytest.mark.parametrize("trials", [False, True])
def test_trials_of_autotuners_are_omitted_by_default(
    proton_writes: Callable[..., None], trials: bool
) -> None:
    # Two trials of each configuration, then two launches of the program in the first one.
    proton_writes(*("tried_kernel", "flush") * 4, "tried_kernel", "tried_kernel")
    x, own = torch.zeros(64), GpuSession(None, trials=trials)
    tried_kernel.cache.clear()
    with own.running():
        for _ in range(2):
            tried_kernel[lambda meta: (triton.cdiv(64, meta["BLOCK"]),)](x, 64)
    own.finish()
    blocks = [s.config["BLOCK"] for s in own.samples if s.config]
    trials_found = own.trials
    if trials:
        assert blocks == [16, 16, 32, 32, 16, 16]
        assert (len(own.samples), len(own.variants), trials_found) == (10, 2, Trials())
    else:
        assert blocks == [16, 16]
        assert (len(own.samples), len(own.variants)) == (2, 1)
        assert (trials_found.launches, trials_found.libraries) == (4, 4)
    assert all(s.counts for s in own.samples if s.kernel == "tried_kernel")
    assert own.notes == {}


def test_trials_do_not_count_as_warm_up(proton_writes: Callable[..., None]) -> None:
    proton_writes(*("tried_kernel",) * 6)
    x, own = torch.zeros(64), GpuSession(None, repetition=Repetition(warmup=1))
    tried_kernel.cache.clear()
    with own.running():
        for _ in range(2):
            tried_kernel[(4,)](x, 64)
    own.finish()
    assert (len(own.samples), own.trials.launches, own.notes) == (1, 4, {})


def test_there_are_no_trials_on_the_cpu() -> None:
    x = torch.zeros(64)
    with profile(on="cpu") as prof:
        tried_kernel[(4,)](x, 64)
    analysis = prof.analyse()
    assert ([s.config for s in analysis.samples], analysis.trials) == (
        [{"BLOCK": 16, "num_warps": 4, "num_ctas": 1, "num_stages": 3}],
        Trials(),
    )
    with pytest.raises(UsageError, match="the first configuration runs without trials"):
        profile(on="cpu", trials=True)


@triton.jit
def plain_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)


def test_a_nested_watch_sees_launches_and_restores_everything() -> None:
    x = torch.zeros(16)
    outer, inner = (GpuCounting(None, counts=True, origin=Origin("shadow")) for _ in range(2))
    compiled = plain_kernel[(1,)](x, BLOCK=16)
    with outer.watching():
        plain_kernel[(1,)](x, BLOCK=16)
        for _ in range(2):
            with inner.watching():
                for _ in range(3):
                    plain_kernel[(1,)](x, BLOCK=16)
        plain_kernel[(1,)](x, BLOCK=16)
    plain_kernel[(1,)](x, BLOCK=16)
    assert (len(outer.launches), len(inner.launches)) == (8, 6)
    assert "run" not in vars(compiled)
    assert isinstance(vars(type(compiled))["run"], property)
