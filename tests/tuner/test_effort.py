"""Levels of effort on a real kernel: the trials, with and without workers, and what workers get."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import ttools.tuner
from ttools.tuner import TuneOptions, TuningRun, run, tuning
from ttools.tuner.options import EFFORTS, Effort
from ttools.tuner.tuning import TuningResult


@triton.jit
def shift_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, SHIFT: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, tl.where(x > 2.0, x + SHIFT, x), mask=offs < n)


def space(count: int, **options: Any) -> list[triton.Config]:
    return [triton.Config({"BLOCK": 64 << n % 4, "SHIFT": n // 4}, **options) for n in range(count)]


def tuned(
    configs: Sequence[triton.Config],
    options: TuneOptions,
    store: Path | None = None,
    **pruned: Any,
) -> TuningResult:
    kernel = triton.autotune(configs, key=["n"], **pruned)(shift_kernel)
    x, out = torch.rand(500), torch.empty(500)
    with TuningRun(options, store=store, on="cpu") as active:
        kernel[lambda meta: (triton.cdiv(500, meta["BLOCK"]),)](x, out, 500)
    assert torch.equal(out, x)
    (result,) = active.results
    return result


@pytest.mark.parametrize(
    ("effort", "tried"),
    [("quick", 16), ("default", 32), pytest.param("full", 40, marks=pytest.mark.slow)],
)
def test_each_level_makes_its_number_of_trials(effort: Effort, tried: int, tmp_path: Path) -> None:
    options = TuneOptions(effort=effort, workers=0)
    result = tuned(space(40), options, store := tmp_path / "store.sqlite")
    assert len(result.trials) == tried
    assert result.complete
    again = tuned(space(40), options, store)
    assert again.new == set()
    assert again.winner is not None
    assert result.winner is not None
    assert again.winner.key == result.winner.key
    higher = tuned(space(40), TuneOptions(effort="full", workers=0), store)
    assert len(higher.trials) == 40
    assert len(higher.new) == 40 - tried
    lower = tuned(space(40), TuneOptions(effort="quick", workers=0), store)
    assert lower.new == set()
    assert lower.winner is not None
    assert higher.winner is not None
    assert lower.winner.key == higher.winner.key


@pytest.mark.parametrize(("trials", "runs"), [(None, True), (20, False), (24, True)])
def test_failures_before_anything_runs_use_no_budget(trials: int | None, runs: bool) -> None:
    """Try more configurations while all fail, unless the option `trials` limits their number."""

    def fails(arguments: dict) -> None:
        raise RuntimeError("not here")

    configs = [*space(20, pre_hook=fails), *space(40)[20:]]
    options = TuneOptions(effort="quick", trials=trials, workers=0)
    if not runs:
        with pytest.raises(RuntimeError, match="not here"):
            tuned(configs, options)
        return
    result = tuned(configs, options)
    assert result.winner is not None
    assert [trial.status for trial in result.trials.values()].count("ok") == (4 if trials else 16)


def test_a_large_space_that_fails_is_not_tried_completely(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(arguments: dict) -> None:
        raise RuntimeError("not here")

    monkeypatch.setattr(tuning, "MOST", 20)
    kernel = triton.autotune(space(60, pre_hook=fails), key=["n"])(shift_kernel)
    with (
        TuningRun(TuneOptions(effort="quick", workers=0), on="cpu") as active,
        pytest.raises(RuntimeError, match="not here"),
    ):
        kernel[(8,)](torch.rand(500), torch.empty(500), 500)
    assert len(active.results[0].trials) == 36


def hook(arguments: dict) -> None:
    arguments["out_ptr"].zero_()


@pytest.mark.parametrize("options", [{}, {"pre_hook": hook}])
def test_workers_get_the_configurations_that_they_lack(
    options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_SENT", 3)
    result = tuned(space(9, **options), TuneOptions(effort="full", workers=1))
    assert [trial.status for trial in result.trials.values()] == ["ok"] * 9
    assert result.notes == []


@pytest.mark.parametrize("effort", EFFORTS)
def test_few_configurations_left_by_pruning_are_all_tried(effort: Effort) -> None:
    def prune(configs: list, named: dict, **kwargs: Any) -> list:
        return [config for config in configs if config.kwargs["SHIFT"] == 1][:2]

    options = TuneOptions(effort=effort, workers=0)
    result = tuned(space(40), options, prune_configs_by={"early_config_prune": prune})
    assert (result.space, len(result.trials)) == (2, 2)


def test_the_decorator_takes_a_level(tmp_path: Path) -> None:
    kernel = ttools.tuner.tune(
        space(24),
        key=["n"],
        store=tmp_path / "store.sqlite",
        options=TuneOptions(effort="quick", workers=0),
        on="cpu",
    )(shift_kernel)
    x, out = torch.rand(500), torch.empty(500)
    kernel[lambda meta: (triton.cdiv(500, meta["BLOCK"]),)](x, out, 500)
    assert torch.equal(out, x)
    assert len(kernel.configs_timings) == 16


def test_the_first_trial_in_a_large_space_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read each configuration a few times before the first trial, however many there are."""
    read = 0
    all_kwargs = triton.Config.all_kwargs

    def counted(config: triton.Config) -> dict:
        nonlocal read
        read += 1
        return all_kwargs(config)

    monkeypatch.setattr(triton.Config, "all_kwargs", counted)
    configs = space(100_000)
    result = tuned(configs, TuneOptions(trials=1, workers=0))
    assert len(result.trials) == 1
    assert result.space == 100_000
    assert read <= 100_000 + 100
