"""Tests of tuning on a real GPU: times, workers, crashes of the CUDA context, the decorator."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

import ttools.tuner
from ttools.core.errors import UsageError
from ttools.tuner import TuneOptions, TuningRun
from ttools.tuner.measure.gpu_bench import FEWEST, FIRST, MOST
from ttools.tuner.measure.gpu_timer import GpuTimer
from ttools.tuner.space.candidate import candidates
from ttools.tuner.store.store import TuningStore

pytestmark = pytest.mark.gpu


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, KIND: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    if KIND == "partial":
        mask = mask & (offs < n // 8)
    if KIND == "crash":
        offs = offs.to(tl.int64) * 1_000_000_000_000
    if KIND == "hang":
        while tl.load(x_ptr, volatile=True) >= 0.0:
            tl.atomic_add(out_ptr, 1.0)
    out = tl.load(out_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, out + 2 * tl.load(x_ptr + offs, mask=mask), mask=mask)


def config(block: int, kind: str = "right", **options) -> triton.Config:
    return triton.Config({"BLOCK": block, "KIND": kind}, **options)


def launch(kernel, n: int = 1 << 20) -> bool:
    x, out = torch.rand(n, device="cuda"), torch.ones(n, device="cuda")
    kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
    return torch.allclose(out, 1 + 2 * x)


def test_wrong_and_failing_configurations_are_rejected(tmp_path: Path) -> None:
    planted = [
        *(config(256), config(1024, "partial"), config(256, "crash"), config(256, "hang")),
        *(config(48), config(1024), config(512, num_warps=8)),
    ]
    kernel = triton.autotune(planted, key=["n"])(scale_kernel)
    options = TuneOptions(search="exhaustive", timeout=10.0)
    with TuningRun(options, store=tmp_path / "store.sqlite") as run:
        assert launch(kernel)
    (result,) = run.results
    assert result.notes == []
    assert result.problem.device.startswith("cuda: NVIDIA")
    statuses = [result.trials[candidate.key].status for candidate in candidates(planted)]
    # An illegal access raises an exception, and its CUDA context cannot be used any more.
    assert statuses == ["ok", "wrong", "crashed", "timed_out", "failed", "ok", "ok"]
    for trial in result.trials.values():
        if trial.status == "ok":
            assert len(trial.samples) in (FIRST, *range(FEWEST, MOST + 1))
            assert 1e-6 < (trial.seconds or 0) < 1e-3
            assert (trial.interval is None) == (len(trial.samples) == FIRST)
    assert kernel.best_config.kwargs["KIND"] == "right"
    store = TuningStore(tmp_path / "store.sqlite")
    (entry,) = store.entries()
    store.close()
    assert len(entry.trials) == 7


def test_all_configurations_of_a_short_launch_are_tried(tmp_path: Path) -> None:
    space = [config(16 << n, num_warps=warps) for n in range(9) for warps in (1, 2, 4, 8)]
    kernel = triton.autotune(space, key=["n"])(scale_kernel)
    options = TuneOptions(workers=8)
    with TuningRun(options, store=tmp_path / "store.sqlite") as run:
        assert launch(kernel)
    (result,) = run.results
    assert len(result.trials) == len(space) > options.budget(len(space))
    assert {trial.status for trial in result.trials.values()} == {"ok"}


@pytest.mark.parametrize("workers", [0, 2])
def test_the_decorator_times_on_the_gpu(tmp_path: Path, workers: int) -> None:
    kernel = ttools.tuner.tune(
        [config(256), config(1024), config(1024, "partial")],
        key=["n"],
        store=tmp_path / "store.sqlite",
        options=TuneOptions(workers=workers),
    )(scale_kernel)
    assert launch(kernel)
    assert launch(kernel)
    assert kernel.best_config.kwargs["KIND"] == "right"


def test_times_from_graphs_and_events_agree_for_long_work() -> None:
    x = torch.rand(1 << 26, device="cuda")
    timer = GpuTimer()
    events = sorted(timer.seconds(lambda: None, lambda: x.mul_(1.0), 9))[4]
    graph = timer.seconds_in_graph(lambda: None, lambda: x.mul_(1.0), 9)
    assert graph is not None, "elementwise work can be captured"
    assert 0.7 < sorted(graph)[4] / events < 1.4
    assert timer.seconds_in_graph(lambda: None, lambda: x.sum().item(), 2) is None
    assert torch.rand(2, device="cuda").max() < 1, "torch is no longer in capture mode"


def test_captured_launches_are_rejected_before_tuning(tmp_path: Path) -> None:
    n, configs = 1 << 16, [config(256), config(1024)]
    x, out = torch.rand(n, device="cuda"), torch.zeros(n, device="cuda")

    def captured(kernel) -> torch.Tensor:
        out.zero_()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
        graph.replay()
        return out.clone()

    def run() -> TuningRun:
        return TuningRun(TuneOptions(workers=0), store=tmp_path / "store.sqlite")

    kernel = triton.autotune(configs, key=["n"])(scale_kernel)
    with run(), pytest.raises(UsageError, match="once before the capture begins"):
        captured(kernel)
    assert torch.ones(2, device="cuda").sum().item() == 2.0, "the context still works"
    with run():
        launch(kernel, n)
        assert torch.allclose(captured(kernel), 2 * x)
    fresh = triton.autotune(configs, key=["n"])(scale_kernel)
    with run() as recalled:
        assert torch.allclose(captured(fresh), 2 * x)
    assert recalled.results == []


def test_workers_use_the_gpu_that_the_program_selected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Select the last GPU, which is not the default on a machine with several."""
    log = tmp_path / "log"

    def note_gpu(arguments) -> None:
        gpu = torch.cuda.get_device_properties(arguments["x_ptr"].device)
        with log.open("a") as file:
            file.write(f"{os.getpid()} {gpu.uuid}\n")

    configs = [config(256, pre_hook=note_gpu), config(1024, pre_hook=note_gpu)]
    kernel = triton.autotune(configs, key=["n"])(scale_kernel)
    last = torch.cuda.device_count() - 1
    with TuningRun(TuneOptions(), on="gpu") as run, torch.cuda.device(last):
        # The workers run already and have numbered the GPUs without this variable. The test acts as
        # if the program had set it before it used CUDA.
        monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        assert launch(kernel)
        x = torch.rand(4, device="cuda")
        assert x.device.index == last, "the program's selection has not changed"
    (result,) = run.results
    assert result.notes == []
    assert [trial.status for trial in result.trials.values()] == ["ok", "ok"]
    processes, gpus = zip(*(line.split() for line in log.read_text().splitlines()), strict=True)
    assert set(gpus) == {str(torch.cuda.get_device_properties(last).uuid)}
    assert set(processes) - {str(os.getpid())}, "no worker ran a configuration"
