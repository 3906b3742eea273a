"""All memory that a run has changed is restored before a timed launch on a GPU.

CPU tensors replace those of a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton

from ttools.sanitizer.memory import launch_state
from ttools.tuner.measure import gpu_bench
from ttools.tuner.measure.checks import Checks
from ttools.tuner.measure.gpu_bench import GpuBench
from ttools.tuner.measure.gpu_launch import GpuTunedCall
from ttools.tuner.space.candidate import Candidate, candidates

SPACE = candidates([triton.Config({"BLOCK": 16 << n}) for n in range(3)])
Work = Callable[[dict[str, Any], int], object]


@pytest.fixture(autouse=True)
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_state, "_on_device", lambda tensor: True)
    monkeypatch.setattr(gpu_bench, "on_host", lambda tensor: False)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)


def bench_of(work: Work, checks: Checks | None = None, **tensors: Any) -> GpuBench:
    """Return a bench whose launch runs a function of its tensors and the block size."""

    def run(config: Any) -> Any:
        work(tensors, config.kwargs["BLOCK"])
        return SimpleNamespace()

    launch: Any = object.__new__(GpuTunedCall)
    for name, value in {
        "kernel": "k",
        "tuner": SimpleNamespace(),
        "arguments": tensors,
        "run": run,
        "bare": run,
        "prepare": lambda config: None,
    }.items():
        object.__setattr__(launch, name, value)
    bench = GpuBench(launch, checks or Checks())
    bench._writes_known = True
    return bench


def put_back(bench: GpuBench, candidate: Candidate) -> None:
    prepare, _ = bench._parts(candidate)
    prepare()


def test_exactly_the_changes_of_a_run_are_restored() -> None:
    x, out = torch.arange(8.0), torch.zeros(8)
    bench = bench_of(lambda named, block: named["out"].copy_(named["x"] + 1), x=x, out=out)
    assert bench.verify(SPACE[0]).status == "ok"
    x[0] = 100.0  # changed without the knowledge of the bench
    put_back(bench, SPACE[0])
    assert not out.any()
    assert x[0] == 100.0
    bench.restore()
    assert x[0] == 0.0


def test_views_and_overlapping_memory_are_restored_completely() -> None:
    whole = torch.arange(16.0)
    alias = torch.from_numpy(whole.numpy()[4:])  # another storage with the same memory
    assert alias.untyped_storage().data_ptr() != whole.untyped_storage().data_ptr()
    before = whole.clone()

    def work(named: dict[str, Any], block: int) -> None:
        named["view"].add_(1)

    bench = bench_of(work, view=whole[8:12], other=whole[:4], alias=alias)
    assert bench.verify(SPACE[0]).status == "ok"
    assert not torch.equal(whole, before)
    put_back(bench, SPACE[0])
    assert torch.equal(whole, before)


def test_changes_of_other_configurations_are_restored() -> None:
    x, lock = torch.zeros(4), torch.zeros(4)

    def work(named: dict[str, Any], block: int) -> None:
        named["x"].add_(1)
        if block == 32:
            named["lock"].fill_(1)

    bench = bench_of(work, Checks(scratch=("lock",)), x=x, lock=lock)
    for config in SPACE[:2]:
        assert bench.verify(config).status == "ok"
    lock.fill_(7)
    put_back(bench, SPACE[0])
    assert not lock.any()


def test_everything_is_restored_before_an_unverified_configuration() -> None:
    x, lock = torch.zeros(4), torch.zeros(4)
    bench = bench_of(lambda named, block: named["x"].add_(1), x=x, lock=lock)
    assert bench.verify(SPACE[0]).status == "ok"
    lock.fill_(7)
    put_back(bench, SPACE[2])
    assert not lock.any()


def test_a_configuration_that_writes_its_input_is_wrong_and_affects_no_other() -> None:
    x, out = torch.ones(8), torch.zeros(8)

    def work(named: dict[str, Any], block: int) -> None:
        named["out"].copy_(named["x"] * 2)
        if block == 32:
            named["x"][3] = -1.0

    bench = bench_of(work, x=x, out=out)
    trials = [bench.verify(config) for config in SPACE]
    assert [trial.status for trial in trials] == ["ok", "wrong", "ok"]
    assert "`x`" in trials[1].reason


def test_outputs_are_those_of_the_run_instead_of_the_reference() -> None:
    out = torch.zeros(8)
    bench = bench_of(lambda named, block: named["out"].fill_(block == 32), out=out)
    # The reference changes nothing, while the second configuration does.
    assert [bench.verify(config).status for config in SPACE] == ["ok", "wrong", "ok"]


def test_all_arguments_that_a_reference_function_names_are_compared() -> None:
    x = torch.zeros(8)
    bench = bench_of(lambda named, block: None, x=x)
    bench._checks = replace(Checks(), reference="module:function")
    bench._compare_with("module:function", {"x": torch.full((8,), math.pi)})
    assert bench.verify(SPACE[0]).status == "wrong"
