"""Configurations with the same launch are run once, and share the trial."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.tuner import TuneOptions, TuningRun
from ttools.tuner.store.store import TuningStore
from ttools.tuner.tuning import TuningResult


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr, UNUSED: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * factor, mask=offs < n)


@triton.jit
def fill_kernel(out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.program_id(0), 1.0)


def tuned(
    configs: Sequence[triton.Config],
    arguments: Sequence[Any] = (2.0,),
    *,
    kernel: Any = scale_kernel,
    **options: Any,
) -> TuningResult:
    x, out = torch.rand(96), torch.zeros(96)
    tuner = triton.autotune(list(configs), key=[])(kernel)
    kernel_arguments = (out,) if kernel is fill_kernel else (x, out, 96, *arguments)
    with TuningRun(TuneOptions(search="exhaustive", workers=0, **options)) as run:
        tuner[lambda meta: (triton.cdiv(96, meta["BLOCK"]),)](*kernel_arguments)
    (result,) = run.results
    return result


def shared(result: TuningResult) -> list[bool]:
    return [bool(trial.same_as) for trial in result.trials.values()]


def config(block: int, unused: int = 0, warps: int = 4, **more: Any) -> triton.Config:
    return triton.Config({"BLOCK": block, "UNUSED": unused}, num_warps=warps, **more)


def test_warps_and_unused_parameters_change_nothing_on_the_cpu() -> None:
    result = tuned([config(32), config(64), config(32, 0, 2), config(32, 7), config(64, 7, 8)])
    assert shared(result) == [False, False, True, True, True]
    first, second, warps, unused, both = result.trials.values()
    assert (warps.samples, unused.samples, both.samples) == (
        *(first.samples, first.samples),
        second.samples,
    )
    assert (warps.same_as, unused.same_as, both.same_as) == (first.key, first.key, second.key)
    assert result.winner is not None
    assert result.winner.values["num_warps"] in (2, 4), (
        "the one with the fewest warps represents equal launches"
    )
    assert len(result.final) <= 2


def test_equal_launches_share_a_wrong_result() -> None:
    kernels = [config(32), triton.Config({"BLOCK": 33, "UNUSED": 0}), config(33, 1)]
    result = tuned(kernels)
    assert [trial.status for trial in result.trials.values()] == ["ok", "failed", "failed"]


def test_run_time_values_distinguish_configurations() -> None:
    configs = [
        triton.Config({"BLOCK": 32, "UNUSED": 0, "factor": factor}) for factor in (2.0, 3.0, 2.0)
    ]
    configs.append(triton.Config({"BLOCK": 32, "UNUSED": 1, "factor": 3.0}))
    result = tuned(configs, ())
    assert shared(result) == [False, False, True]
    assert [trial.status for trial in result.trials.values()] == ["ok", "wrong", "wrong"]


def test_grids_distinguish_configurations() -> None:
    configs = [triton.Config({"BLOCK": block}) for block in (1, 2)]
    result = tuned(configs, kernel=fill_kernel)
    assert shared(result) == [False, False]


@pytest.mark.parametrize("where", ["config", "tuner", "heuristics"])
def test_hooks_and_heuristics_prevent_sharing(where: str) -> None:
    hook: dict[str, Any] = {"pre_hook": lambda *_, **__: None}
    configs = [config(32, n, **(hook if where == "config" else {})) for n in range(2)]
    kernel: Any = scale_kernel
    if where == "heuristics":
        kernel = triton.heuristics({"factor": lambda arguments: arguments["UNUSED"] + 2.0})(kernel)
    tuner = triton.autotune(configs, key=[], **(hook if where == "tuner" else {}))(kernel)
    x, out = torch.ones(96), torch.zeros(96)
    named = {} if where == "heuristics" else {"factor": 2.0}
    with TuningRun(TuneOptions(search="exhaustive", workers=0)) as run:
        tuner[(3,)](x, out, 96, **named)
    (result,) = run.results
    assert shared(result) == [False, False]
    assert list(result.trials.values())[1].status == ("wrong" if where == "heuristics" else "ok")


def test_equal_launches_do_not_use_the_budget() -> None:
    configs = [config(block, warps=warps) for block in (32, 64, 128) for warps in (1, 2, 4, 8)]
    result = tuned(configs, trials=2)
    tried = {trial.values["BLOCK"] for trial in result.trials.values()}
    assert len(tried) == 2
    assert sum(not trial.same_as for trial in result.trials.values()) == 2


def test_the_store_records_equal_launches(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    x, out = torch.rand(96), torch.zeros(96)
    tuner = triton.autotune([config(32), config(32, 1)], key=[])(scale_kernel)
    for _ in range(2):
        with TuningRun(TuneOptions(workers=0), store=path) as run:
            tuner[(3,)](x, out, 96, 2.0)
        (result,) = run.results
        assert shared(result) == [False, True]
    (entry,) = TuningStore(path, create=False).entries()
    assert [bool(trial.same_as) for trial in entry.trials] == [False, True]
