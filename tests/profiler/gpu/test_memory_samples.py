"""Launches whose work depends on memory: a sample is counted; the others are estimated from it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pandas as pd
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.gpus.devices import read_device
from ttools.core.gpus.targets import read_target
from ttools.profiler.gpu import equal_launches
from ttools.profiler.gpu.counted_launches import GpuCounting
from ttools.profiler.gpu.equal_launches import MadeCall
from ttools.profiler.gpu.memory_samples import MOST, StratifiedSample, copied, span_of
from ttools.profiler.gpu.proton_file import KernelTime
from ttools.profiler.gpu.session import join
from ttools.profiler.report.analysis import ProfileAnalysis
from ttools.profiler.report.profile import Profile
from ttools.profiler.run.origin import Origin
from ttools.profiler.run.session import Sample
from ttools.profiler.run.trials import Trials

ROWS, WIDTH = 256, 64


@triton.jit
def grow_kernel(x_ptr, length_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(tl.load(length_ptr)):
        total += tl.load(x_ptr + row * 64 + at)
    tl.store(out_ptr + at, total)


@triton.jit
def masked_kernel(x_ptr, length_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < tl.load(length_ptr)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=inside), mask=inside)


@triton.jit
def nested_kernel(x_ptr, table_ptr, out_ptr, BLOCK: tl.constexpr):
    """Load the deciding number through a pointer that is itself loaded."""
    length_ptr = tl.load(table_ptr).to(tl.pointer_type(tl.int32))
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < tl.load(length_ptr)))


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the time limit, so that slow machines count the same launches as fast ones."""
    monkeypatch.setattr(equal_launches, "MOST_SECONDS", float("inf"))


class Graph:
    """Replaces torch's CUDA graph, which needs a GPU: a replay calls the captured function."""

    def capture_begin(self) -> None:
        """Do nothing."""

    def capture_end(self) -> None:
        """Do nothing."""

    def replay(self) -> None:
        """Replay nothing."""


@given(st.integers(1, 2000))
def test_a_sample_covers_the_whole_sequence(length: int) -> None:
    sample: StratifiedSample[int] = StratifiedSample(most=8)
    dropped: list[int] = []
    for n in range(length):
        if sample.wants():
            dropped += sample.add(n)
    kept = sample.kept
    assert kept == sorted(set(kept))
    assert not set(kept) & set(dropped)
    assert kept[0] == 0
    if length <= 8:
        assert kept == list(range(length))
    else:
        assert 4 <= len(kept) <= 8
        # No gap is longer than two windows.
        window = 1
        while length > 8 * window:
            window *= 2
        assert max(b - a for a, b in zip(kept, [*kept[1:], length], strict=True)) <= 2 * window


def test_only_the_tensor_s_part_of_a_large_storage_is_copied() -> None:
    large = torch.arange(1 << 19, dtype=torch.int32)
    part = large[1000:2000:2]
    assert span_of(part) == (4000, 7996)
    assert span_of(torch.zeros(10, dtype=torch.int32)[5:]) == (0, 40)
    (copy,) = copied([part]).values()
    assert copy.begin == 4000
    assert torch.equal(copy.content.view(torch.int32)[::2], part)


def rows(watch: GpuCounting) -> tuple[list[MadeCall], pd.Series, ProfileAnalysis]:
    watch.count()
    calls = watch.launches
    times = [KernelTime(m.launch.kernel, float(n), 1e-6) for n, m in enumerate(calls)]
    session = Session(watch, join(times, calls, watch.notes, Trials()))
    analysis = Profile(session, read_device("h100"), read_target("sm_90")).analyse()
    return calls, analysis.frame.iloc[0], analysis


class Session:
    """Replaces a session on a GPU; each launch takes a microsecond."""

    timed_on = "the GPU"
    unseen = ""
    overheads: dict[tuple[str, str], list[float]] = {}  # noqa: RUF012
    trials = Trials()

    def __init__(self, watch: GpuCounting, samples: Sequence[Sample]) -> None:
        self.samples, self.notes = list(samples), watch.notes
        self.variants, self.seen, self.recorded = watch.variants, watch.made, watch.made
        self.readings_of = watch.readings_of
        self.scopes: list[tuple[tuple[str, ...], dict[str, float]]] = []

    def finish(self, *_: object, count: bool = True) -> None:
        pass

    def running(self) -> Any:
        return nullcontext()


def grown(lengths: Sequence[int]) -> GpuCounting:
    x, out = torch.ones(ROWS, WIDTH), torch.empty(WIDTH)
    length = torch.zeros(1, dtype=torch.int32)
    watch = GpuCounting(None, counts=True, origin=Origin("shadow"))
    with watch.watching():
        for count in lengths:
            length.fill_(count)
            grow_kernel[(1,)](x, length, out, BLOCK=WIDTH)
    return watch


def requested(length: int) -> int:
    return 4 * WIDTH * (length + 1) + 4


def test_few_launches_are_all_counted() -> None:
    lengths = [max(1, 8 * n) for n in range(20)]
    calls, row, analysis = rows(grown(lengths))
    assert [m.launch.counts.total.bytes for m in calls if m.launch.counts] == [
        requested(n) for n in lengths
    ]
    assert row["bytes"] == sum(map(requested, lengths)) / 20
    assert (row["bytes_min"], row["bytes_max"]) == (requested(1), requested(152))
    assert (row["told_by"], row["counted"]) == ("counts", 20)
    assert pd.isna(row["estimated"])
    assert row["bound_s"] > 0
    assert set(analysis.signatures["told_by"]) == {"counts"}


def test_a_sample_of_many_launches_is_counted_as_an_estimate() -> None:
    lengths = [1 + n // 2 for n in range(6 * MOST)]
    calls, row, analysis = rows(grown(lengths))
    exact = [m.launch.counts for m in calls if m.launch.counts and not m.launch.counts.estimated]
    assert MOST // 2 <= len(exact) <= MOST
    mean = sum(map(requested, lengths)) / len(lengths)
    assert row["bytes"] == pytest.approx(mean, rel=0.05)
    assert row["bytes_min"] == requested(1)
    assert row["bytes_max"] >= 0.9 * requested(lengths[-1])
    assert (row["told_by"], row["counted"]) == ("estimate", len(exact))
    assert row["estimated"] == (
        f"{len(exact)} of {len(lengths)} launches were counted; their work depends on "
        "the contents of memory"
    )
    for name in ("gflops", "gbytes", "intensity", "bound_s", "memory_share", "efficiency"):
        assert pd.isna(row[name]), name
    assert row["instruction_mix"] is None
    assert row["registers"] > 0
    assert analysis.advice == ()
    assert len(analysis.accesses) == 0
    assert set(analysis.lines["told_by"]) == {"estimate"}
    signatures = analysis.signatures
    assert set(signatures["told_by"]) == {"counts", "estimate"}
    assert signatures["bound_s"].isna().equals(signatures["told_by"] == "estimate")


@pytest.mark.parametrize("launches", [5, 6 * MOST])
def test_advice_requires_counted_launches(launches: int) -> None:
    """Mask nearly all lanes in the first launch, and none in the others."""
    x, out = torch.ones(1024), torch.empty(1024)
    length = torch.full((1,), 8, dtype=torch.int32)
    watch = GpuCounting(None, counts=True, origin=Origin("shadow"))
    with watch.watching():
        for _ in range(launches):
            masked_kernel[(1,)](x, length, out, BLOCK=1024)
            length.fill_(1024)
    _, row, analysis = rows(watch)
    assert row["masked_share"] == pytest.approx((1 - 8 / 1024) / launches, rel=0.5)
    kinds = {hint.kind for hint in analysis.advice}
    # The first of five launches is counted, and a sufficient part of all launches for advice.
    assert ("mask_overhead" in kinds) == (launches == 5)


def test_replays_of_a_graph_are_estimated_by_memory_before_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torch.cuda.CUDAGraph", Graph)
    x, out = torch.ones(ROWS, WIDTH), torch.empty(WIDTH)
    length = torch.zeros(1, dtype=torch.int32)
    graph = Graph()
    watch = GpuCounting(None, counts=True, origin=Origin("shadow"))
    with watch.watching():
        graph.capture_begin()
        grow_kernel[(1,)](x, length, out, BLOCK=WIDTH)
        graph.capture_end()
        for n in range(10):
            length.fill_(n)
            graph.replay()
    calls, row, _ = rows(watch)
    assert watch.notes == {}
    assert [m.launch.counts.total.bytes for m in calls if m.launch.counts] == [
        requested(n) for n in range(10)
    ]
    assert (row["told_by"], row["counted"]) == ("estimate", 0)
    assert pd.isna(row["bound_s"])


def test_pointers_from_memory_are_not_followed() -> None:
    """Read all arguments at the launch, and only for the first launch."""
    x, out = torch.ones(64), torch.empty(64)
    length = torch.tensor([10], dtype=torch.int32)
    table = torch.tensor([length.data_ptr()])
    watch = GpuCounting(None, counts=True, origin=Origin("shadow"))
    with watch.watching():
        for n in (10, 20, 30):
            length.fill_(n)
            nested_kernel[(1,)](x, table, out, BLOCK=64)
    calls, row, _ = rows(watch)
    assert [m.launch.counts.estimated for m in calls if m.launch.counts] == [False, True, True]
    assert row["told_by"] == "estimate"
