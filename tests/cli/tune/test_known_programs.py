"""A program whose tunings are all stored: its workers start only once they are needed."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.cli.tune.command import _is_complete
from ttools.tuner import TuneOptions, TuningRun
from ttools.tuner import run as tuning_run
from ttools.tuner.store.store import TuningStore


@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, 2 * tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


def tuned(store: Path, sizes: Sequence[int], complete: bool) -> None:
    kernel = triton.autotune([triton.Config({"BLOCK": b}) for b in (64, 128)], ["n"])(double_kernel)
    with TuningRun(TuneOptions(workers=0), store=store, program="the program") as run:
        for n in sizes:
            x, out = torch.rand(n), torch.zeros(n)
            kernel[lambda meta, n=n: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
            assert torch.equal(out, 2 * x)
            run.results[-1].complete &= complete  # an interrupted search is stored as incomplete
    assert len(run.results) == len(sizes)


def ended(store: Path) -> float:
    database = TuningStore(store)
    ended_at = database.ended("the program")
    database.close()
    return ended_at


@pytest.mark.parametrize(("sizes", "complete"), [((300, 500), True), ((300,), False), ((), False)])
def test_a_program_is_complete_if_all_its_tunings_are(
    tmp_path: Path, sizes: Sequence[int], complete: bool
) -> None:
    store, before = tmp_path / "store.sqlite", time.time()
    tuned(store, sizes, complete)
    assert (ended(store) >= before) == complete
    assert complete or ended(store) == 0


def test_a_program_is_complete_until_its_script_changes(tmp_path: Path) -> None:
    store, script = tmp_path / "store.sqlite", tmp_path / "script.py"
    script.write_text("")
    assert not _is_complete(store, "a program", [str(script)]), "the store does not exist"
    assert not store.exists()
    TuningStore(store).close()
    assert not _is_complete(store, "a program", [str(script)])
    database = TuningStore(store)
    database.end("a program")
    database.close()
    assert _is_complete(store, "a program", [str(script), "argument"])
    assert _is_complete(store, "a program", []), (
        "without a script there is no file whose time could be compared"
    )
    assert not _is_complete(store, "another", [str(script)])
    later = time.time() + 10
    os.utime(script, (later, later))
    assert not _is_complete(store, "a program", [f"{script}:kernel"])


def test_the_number_of_trials_is_known_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning_run, "compiling_slots", lambda compiling: 2)
    run: Any = object.__new__(TuningRun)
    run._options, run._measuring = TuneOptions(), SimpleNamespace(on_gpu=True)
    run._start_workers = None  # a call would fail
    assert run._most(16) == 16, "small spaces are compiled completely by two processes"
    assert run._most(17) == TuneOptions().budget(17)
    run._measuring = SimpleNamespace(on_gpu=False)
    assert run._most(64) == TuneOptions().budget(64) != 64
