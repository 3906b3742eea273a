"""Launches captured by a CUDA graph: the sources of their configuration, without a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl

from ttools.core.errors import UsageError
from ttools.interpreter.run.tuned_launch import TunedCall
from ttools.tuner import TuneOptions, TuningRun, run
from ttools.tuner.space.candidate import candidates
from ttools.tuner.store.problem import problem_of
from ttools.tuner.store.store import TuningStore

DEVICE = "cuda: one for tests"


@triton.jit
def nothing_kernel(n, BLOCK: tl.constexpr):
    pass


def launch_of(launched: list[int]) -> TunedCall:
    configs = [triton.Config({"BLOCK": block}) for block in (8, 16)]
    tuner: Any = triton.autotune(configs, key=["n"])(nothing_kernel)
    return TunedCall(
        kernel="nothing_kernel",
        tuner=tuner,
        configs=configs,
        arguments={"n": 5},
        run=lambda config: launched.append(config.kwargs["BLOCK"]),
        choose=lambda config: None,
        compiled=lambda config: None,
        key=(5,),
    )


@pytest.fixture(autouse=True)
def capturing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "gpu_usable", lambda: True)
    monkeypatch.setattr(run, "gpu_device", lambda: DEVICE)
    monkeypatch.setattr(run, "being_captured", lambda: True)


def run_of(store: Path | None = None, **options: Any) -> TuningRun:
    return TuningRun(TuneOptions(workers=0, **options), store=store, on="gpu")


def test_a_launch_that_was_never_tuned_is_refused_with_a_remedy() -> None:
    launched: list[int] = []
    own = run_of()
    with pytest.raises(UsageError, match=r"nothing_kernel: .*once before the capture"):
        own.tune(launch_of(launched))
    assert (launched, own.results) == ([], [])


def test_the_store_decides_unless_tuning_is_forced(tmp_path: Path) -> None:
    launched: list[int] = []
    launch = launch_of(launched)
    path = tmp_path / "store.sqlite"
    store = TuningStore(path)
    winner = candidates(launch.configs)[1].key
    store.decide(problem_of(launch, DEVICE), winner, {}, complete=True, location=("kernel.py", 1))
    store.close()
    run_of(path).tune(launch)
    assert launched == [16]
    with pytest.raises(UsageError, match="captured"):
        run_of(path, fresh=True).tune(launch)


def test_a_stored_winner_that_is_no_longer_a_configuration_is_ignored(tmp_path: Path) -> None:
    launch = launch_of([])
    path = tmp_path / "store.sqlite"
    store = TuningStore(path)
    store.decide(problem_of(launch, DEVICE), "gone", {}, complete=True, location=("kernel.py", 1))
    store.close()
    with pytest.raises(UsageError, match="captured"):
        run_of(path).tune(launch)


def test_captured_launches_under_a_device_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "gpu_usable", lambda: False)
    monkeypatch.setattr(run, "capturing", object)
    launched: list[int] = []
    own = TuningRun(TuneOptions(workers=0), store=None, on="cpu")
    with pytest.raises(UsageError, match=r"nothing_kernel: .*once before the capture"):
        own.tune(launch_of(launched))
    assert launched == []
