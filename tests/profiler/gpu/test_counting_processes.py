"""Other processes count launches while the program runs; they end with the profile."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import Future, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from msgspec.structs import replace as replaced
from pandas.testing import assert_frame_equal
from tests.profiler.gpu.test_memory_samples import Session

from ttools.core.compilation import stages
from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.specialisation import source_by_kernel
from ttools.core.compilation.stages import Compilation, compile_for
from ttools.core.gpus.devices import read_device
from ttools.core.gpus.targets import Target, read_target
from ttools.core.process import worker
from ttools.core.process.channel import WorkerEndedError
from ttools.profiler import Profile
from ttools.profiler.counting.counts import WorkCounts
from ttools.profiler.gpu import counted_launches, counting_processes
from ttools.profiler.gpu.copies import OwnCopies
from ttools.profiler.gpu.count_request import RequestCounter
from ttools.profiler.gpu.counted_launches import GpuCounting
from ttools.profiler.gpu.counting_processes import (
    CountingProcesses,
    Preparation,
    number_of_processes,
)
from ttools.profiler.gpu.equal_launches import EqualCalls
from ttools.profiler.gpu.host_count import HostCounter
from ttools.profiler.gpu.launched_kernel import GpuKernel
from ttools.profiler.gpu.proton_file import KernelTime
from ttools.profiler.gpu.session import join
from ttools.profiler.report.analysis import ProfileAnalysis
from ttools.profiler.run.origin import Origin
from ttools.profiler.run.trials import Trials


@triton.jit
def masked_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2.0, mask=at < n)


@triton.jit
def rows_kernel(x_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(rows):
        total += tl.load(x_ptr + row * BLOCK + at)
    tl.store(out_ptr + tl.program_id(0) * BLOCK + at, total)


@triton.jit
def grow_kernel(x_ptr, length_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < tl.load(length_ptr)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=inside), mask=inside)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[worker.Worker]:
    """Return the list of processes that are started to count."""
    workers: list[worker.Worker] = []

    def spawn(*arguments: Any) -> worker.Worker:
        workers.append(worker.spawn_worker(*arguments))
        return workers[-1]

    monkeypatch.setattr(counting_processes, "spawn_worker", spawn)
    monkeypatch.setattr(counting_processes, "_DELAY_S", 0.0)
    return workers


def watched(processes: CountingProcesses | None, target: Target | None = None) -> GpuCounting:
    """Launch three kernels, one of which has work that depends on memory."""
    x, out = torch.ones(4096), torch.zeros(4096)
    view, length = x[1024:], torch.tensor([10], dtype=torch.int32)
    watch = GpuCounting(
        None, counts=True, origin=Origin("shadow"), processes=processes, target=target
    )
    with watch.watching():
        for n in (1000, 1000, 777):
            masked_kernel[(triton.cdiv(n, 256),)](x, out, n, BLOCK=256)
        masked_kernel[(2,)](view, view, 500, BLOCK=256)
        rows_kernel[(3,)](x, out, 5, BLOCK=64)
        for n in (10, 20):
            length.fill_(n)
            grow_kernel[(1,)](x, length, out, BLOCK=64)
    return watch


def waited(watch: GpuCounting) -> GpuCounting:
    """Wait until other processes have answered all requests for counts."""
    futures = [group.asked for group in watch._alikes() if group.asked is not None]
    assert futures
    wait(futures, timeout=120)
    return watch


def counts_of(watch: GpuCounting) -> list[WorkCounts | None]:
    watch.count()
    return [call.launch.counts for call in watch.launches]


def ended(processes: list[worker.Worker]) -> None:
    """Wait until processes and their threads have ended."""
    for thread in threading.enumerate():
        if thread.name == "ttools counting":
            thread.join(60)
            assert not thread.is_alive()
    for process in processes:
        assert not Path(f"/proc/{process.pid}").exists()


def counts_only_samples(original: Any) -> Any:
    """Let this process count only launches that depend on memory."""

    def count(self: RequestCounter, launch: Any) -> WorkCounts:
        assert launch.contents
        counts: WorkCounts = original(self, launch)
        return counts

    return count


def test_other_processes_count_the_same(
    started: list[worker.Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = watched(None)
    expected = counts_of(here)
    assert expected[0] is not None
    assert None not in expected
    assert (here.notes, started) == ({}, [])
    watch = waited(watched(CountingProcesses(2)))
    with monkeypatch.context() as patch:
        patch.setattr(RequestCounter, "count", counts_only_samples(RequestCounter.count))
        assert counts_of(watch) == expected
    assert watch.notes == {}
    assert 1 <= len(started) <= 2
    ended(started)


def refuses_to_count(*_: object) -> WorkCounts:
    raise AssertionError("counted here")


def test_other_processes_count_samples_of_memory(
    started: list[worker.Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = counts_of(watched(None))
    watch = waited(watched(CountingProcesses(2)))
    kinds = {id(group.kind): group.kind for group in watch._alikes()}.values()
    for kind in kinds:
        kind.ask_for_all(watch._counter)
    samples = [sample for kind in kinds if kind.sample for sample in kind.sample.kept]
    assert len(samples) == 2
    futures = [sample.asked for sample in samples if sample.asked is not None]
    assert len(futures) == 2
    wait(futures, timeout=120)
    monkeypatch.setattr(RequestCounter, "count", refuses_to_count)
    assert counts_of(watch) == expected
    assert watch.notes == {}
    ended(started)


def test_a_process_compiles_before_the_memory_is_known(started: list[worker.Worker]) -> None:
    """Check that counts are the same if the code was compiled before the memory was known."""
    watch = watched(None)
    kind = next(group.kind for group in watch._alikes() if group.kind.sample is not None)
    assert kind.request is not None
    processes = CountingProcesses(1)
    prepared = processes.submit(Preparation(kind.request))
    kind.ask_for_all(HostCounter({}, OwnCopies()))
    assert kind.sample is not None
    requests = [sample.request for sample in kind.sample.kept if sample.request is not None]
    futures = [processes.submit(request) for request in requests]
    processes.finish()
    assert result(prepared) is None
    assert [result(future) for future in futures] == [
        RequestCounter().count(request) for request in requests
    ]
    ended(started)


def test_kernels_compiled_ahead_are_used_for_counting() -> None:
    """Compile exactly the code that counting runs."""
    watch = watched(None)
    every = {id(group.kernel): group for group in watch._alikes()}.values()
    requests = [item.kind.request for item in every if item.kind.request is not None]
    assert len(requests) == 3
    for request in requests:
        counter = RequestCounter()
        counter.prepare(request)
        (kernel,) = counter._kernels.values()
        assert len(kernel.variants._kernels) == 1
        counter.count(request)
        assert len(kernel.variants._kernels) == 1


def compiled_for_target(source: KernelSource, target: Target) -> Compilation:
    """Compile a kernel for the target, as if it were the code of a launch on a GPU."""
    (whole,) = source_by_kernel([source.compiled]).values()
    return compile_for(whole, target)


def test_other_processes_read_the_same_machine_code(
    started: list[worker.Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that the analysis is the same if other processes have read the machine code."""
    target = read_target("sm_90")
    expected = analysed(watched(None))
    monkeypatch.setattr(counted_launches, "launched_compilation", compiled_for_target)
    watch = watched(CountingProcesses(2), target)
    readings = [reading for reading in watch._code.values() if reading is not None]
    assert len(readings) == 3
    wait(readings, timeout=120)
    for source in watch.variants.values():
        here = Inspection(compile_for(source, target)).readings()
        assert watch.readings_of(source, target) == here
        assert here.machine_code is not None
        assert here.accesses
        assert watch.readings_of(source, read_target("sm_80")) is None
    monkeypatch.setattr(stages, "disassemble", refuses_to_count)
    analysis = analysed(watch)
    for name in ("frame", "signatures", "lines", "accesses"):
        assert_frame_equal(getattr(analysis, name), getattr(expected, name))
    assert (analysis.advice, analysis.notes) == (expected.advice, expected.notes)
    ended(started)


def analysed(watch: GpuCounting) -> ProfileAnalysis:
    watch.count()
    calls = watch.launches
    times = [KernelTime(m.launch.kernel, float(n), 1e-6) for n, m in enumerate(calls)]
    session = Session(watch, join(times, calls, watch.notes, Trials()))
    return Profile(session, read_device("h100"), read_target("sm_90")).analyse()


def test_kernels_that_other_processes_cannot_read_are_read_here(
    started: list[worker.Worker],
) -> None:
    """Read the code in this process, for instance if NVIDIA's tools are missing there."""
    target = read_target("sm_90")
    source = next(iter(watched(None).variants.values()))
    broken = replace(compile_for(source, target), source=KernelSource(name="k"), binary=b"none")
    processes = CountingProcesses(1)
    reading = processes.submit(broken)
    processes.finish()
    assert result(reading) is None
    ended(started)
    watch = GpuCounting(None, counts=True, origin=Origin("shadow"), target=target)
    assert reading is not None
    watch._code[source.compiled] = reading
    assert watch.readings_of(source, target) is None


def test_trials_are_not_counted_until_a_configuration_is_chosen(
    started: list[worker.Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = True
    monkeypatch.setattr(counted_launches, "_LINGER_S", 0.0)
    monkeypatch.setattr(counted_launches, "is_trial", lambda: trial)
    monkeypatch.setattr(counted_launches, "launched_compilation", compiled_for_target)
    x, out = torch.ones(4096), torch.zeros(4096)
    watch = GpuCounting(
        None,
        counts=True,
        origin=Origin("shadow"),
        processes=CountingProcesses(1),
        target=read_target("sm_90"),
    )
    with watch.watching():
        watch._configs._count(1)  # an autotuner runs
        masked_kernel[(4,)](x, out, 1000, BLOCK=256)
        assert [call.trial for call in watch.launches] == [True]
        assert not watch._code
        trial = False
        masked_kernel[(4,)](x, out, 1000, BLOCK=256)
        watch._configs._count(-1)
    (chosen,) = watch._alikes()
    assert chosen.request is not None
    assert result(chosen.asked) == RequestCounter().count(chosen.request)
    assert result(*watch._code.values()) is not None
    ended(started)


def test_remaining_launches_are_counted_at_the_end(
    started: list[worker.Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Count launches without a request, such as those that an autotuner has tried before."""
    expected = counts_of(watched(None))
    with monkeypatch.context() as patch:
        patch.setattr(EqualCalls, "ask", lambda *_: None)
        watch = watched(CountingProcesses(1))
    assert started == []
    assert counts_of(watch) == expected
    ended(started)


def test_launches_that_no_process_has_started_are_counted_here(
    started: list[worker.Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Count in this process if the program ends before another process is ready."""
    expected = counts_of(watched(None))
    monkeypatch.setattr(counting_processes, "_DELAY_S", 3600.0)
    monkeypatch.setattr(CountingProcesses, "finish", lambda *_: None)
    processes = CountingProcesses(1)
    watch = watched(processes)
    assert counts_of(watch) == expected
    assert (started, watch.notes) == ([], {})
    monkeypatch.undo()
    processes.finish()
    ended(started)
    assert started == []


def test_launches_of_a_dead_process_are_counted_here(
    started: list[worker.Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = counts_of(watched(None))
    original = worker.Worker.ask

    def ask(self: worker.Worker, request: Any, seconds: float | None = None) -> Any:
        os.kill(self.pid, signal.SIGKILL)
        return original(self, request, seconds)

    monkeypatch.setattr(worker.Worker, "ask", ask)
    watch = waited(watched(CountingProcesses(1)))
    assert counts_of(watch) == expected
    assert {*watch.notes} == {"masked_kernel", "rows_kernel"}
    assert "was killed by SIGKILL" in watch.notes["masked_kernel"]
    assert "counted after the run" in watch.notes["masked_kernel"]
    assert len(started) == 2  # no third process is started
    ended(started)


def test_without_other_processes_all_launches_are_counted_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = counts_of(watched(None))

    def refuse(*_: Any) -> worker.Worker:
        raise OSError("no more processes")

    monkeypatch.setattr(counting_processes, "spawn_worker", refuse)
    monkeypatch.setattr(counting_processes, "_DELAY_S", 0.0)
    watch = waited(watched(CountingProcesses(1)))
    assert counts_of(watch) == expected
    assert "no more processes" in watch.notes["masked_kernel"]
    # A forked process has none of the program's threads.
    forked = CountingProcesses(1)
    monkeypatch.setattr(forked, "_owner", os.getpid() + 1)
    assert counts_of(watched(forked)) == expected


def test_launches_that_cannot_be_counted_or_sent_are_noted_once(
    started: list[worker.Worker],
) -> None:
    x = torch.zeros(64)
    compiled = masked_kernel[(1,)](x, x, 64, BLOCK=64)
    words = 1, 1, 1, *[None] * 6, x, x, 64, 64
    request = GpuKernel(compiled).request(words)
    assert request is not None
    processes = CountingProcesses(1)
    unsendable = replaced(request.spec.arguments[0], value=lambda: 0)
    futures = [
        processes.submit(replace(request, ttir="module {}")),
        processes.submit(replace(request, spec=replaced(request.spec, arguments=(unsendable,)))),
        processes.submit(request),
    ]
    processes.finish()
    reason, unsent, counts = (result(future) for future in futures)
    assert isinstance(reason, str)
    assert isinstance(unsent, Exception)
    assert not isinstance(unsent, WorkerEndedError)
    assert counts == RequestCounter().count(request)
    ended(started)


def result(future: Future[Any] | None) -> Any:
    assert future is not None
    try:
        return future.result(timeout=120)
    except Exception as error:  # noqa: BLE001 - whatever was raised there
        return error


def test_processes_end_if_the_profile_is_not_analysed(
    started: list[worker.Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finish the submitted requests; no process remains."""
    monkeypatch.setattr(counted_launches, "_LINGER_S", 0.0)
    watched(CountingProcesses(1))
    ended(started)
    assert len(started) == 1


@pytest.mark.parametrize(
    ("processors", "number"), [(1, 0), (3, 0), (4, 1), (8, 2), (16, 4), (128, 4)]
)
def test_the_number_of_processes_leaves_processors_to_the_program(
    monkeypatch: pytest.MonkeyPatch, processors: int, number: int
) -> None:
    monkeypatch.setattr(counting_processes, "processors", lambda: processors)
    assert number_of_processes() == number
