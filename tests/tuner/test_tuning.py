"""Tuning in one process: memory, budgets, launches that cannot be tuned, store failures."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.core.errors import UsageError
from ttools.tuner import TuneOptions, TuningRun
from ttools.tuner.measure.checks import Checks
from ttools.tuner.measure.finalists import MOST_EQUAL, MOST_FINALISTS, finalists, winner
from ttools.tuner.space.candidate import candidates
from ttools.tuner.store.store import TuningStore

#: Runs in this process; workers have their own tests.
HERE = TuneOptions(workers=0)


def config(block: int, wrong: bool = False) -> triton.Config:
    return triton.Config({"BLOCK": block, "WRONG": wrong})


def kernel_of(*configs: triton.Config, **options):
    @triton.autotune(list(configs), key=["n"], **options)
    @triton.jit
    def add_to_kernel(x_ptr, total_ptr, n, BLOCK: tl.constexpr, WRONG: tl.constexpr):
        offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs, mask=offs < n) + (1 if WRONG else 0)
        total = tl.load(total_ptr + offs, mask=offs < n)
        tl.store(total_ptr + offs, total + x, mask=offs < n)

    return add_to_kernel


def launch(kernel, n: int = 100) -> torch.Tensor:
    x, total = torch.arange(float(n)), torch.ones(n)
    kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, total, n)
    assert torch.equal(total, x + 1) or kernel.best_config.kwargs["WRONG"]
    return total


def test_memory_is_as_after_a_launch_of_the_winner() -> None:
    with TuningRun(HERE) as run:
        kernel = kernel_of(config(16), config(32), config(64))
        launch(kernel)
        launch(kernel)
        launch(kernel, 50)
    assert [len(result.trials) for result in run.results] == [3, 3]
    assert kernel.best_config is run.results[1].winner.config


def test_wrong_configurations_do_not_win_and_a_wrong_reference_is_suspected() -> None:
    with TuningRun(HERE) as run:
        launch(kernel_of(config(16), config(128, wrong=True)))
    (result,) = run.results
    assert [trial.status for trial in result.trials.values()] == ["ok", "wrong"]
    assert result.notes == []
    with TuningRun(HERE) as run:
        launch(kernel_of(config(16, wrong=True), config(32), config(64)))
    (result,) = run.results
    assert [trial.status for trial in result.trials.values()] == ["ok", "wrong", "wrong"]
    assert "differ from those of the reference" in result.notes[0]


def test_nan_outputs_are_reported() -> None:
    with TuningRun(HERE) as run:
        kernel_of(config(16), config(128))[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](
            torch.full((100,), torch.nan), torch.ones(100), 100
        )
    (result,) = run.results
    (note,) = result.notes
    assert result.winner is not None
    assert note.startswith("`total_ptr`: every element is NaN, for every configuration")


def test_scratch_memory_is_not_compared() -> None:
    options = TuneOptions(workers=0, checks=Checks(scratch=("total_ptr",)))
    with TuningRun(options) as run:
        launch(kernel_of(config(128, wrong=True), config(64, wrong=True), config(16, wrong=True)))
    assert {trial.status for trial in run.results[0].trials.values()} == {"ok"}


def test_budgets() -> None:
    kernel = kernel_of(*(config(1 << n) for n in range(4, 10)))
    with TuningRun(TuneOptions(workers=0, trials=2)) as run:
        launch(kernel)
    assert len(run.results[0].trials) == 2
    with TuningRun(TuneOptions(workers=0, seconds=0.0)) as run:
        launch(kernel_of(*(config(1 << n) for n in range(4, 10))))
    assert len(run.results[0].trials) == 1


def test_the_first_exception_is_raised_if_nothing_runs() -> None:
    with TuningRun(HERE) as run, pytest.raises(triton.CompilationError, match="power of 2"):
        launch(kernel_of(config(48), config(33)))
    (result,) = run.results
    assert [trial.status for trial in result.trials.values()] == ["failed", "failed"]
    assert result.winner is None


def test_problems_whose_configurations_all_failed_are_tried_again(tmp_path: Path) -> None:
    path, kernel = tmp_path / "store.sqlite", kernel_of(config(16), config(32))
    x, total = torch.zeros(10), torch.zeros(10)
    with TuningRun(HERE, store=path), pytest.raises(ZeroDivisionError):
        kernel[lambda meta: (1 // 0,)](x, total, 10)
    with TuningRun(HERE, store=path) as run:
        kernel[lambda meta: (1,)](x, total, 10)
    (result,) = run.results
    assert [trial.status for trial in result.trials.values()] == ["ok", "ok"]
    assert result.winner is not None


def test_a_launch_without_programs_is_tuned(tmp_path: Path) -> None:
    kernel = kernel_of(*(config(1 << power) for power in range(4, 10)))
    x, total = torch.zeros(10), torch.zeros(10)
    with TuningRun(HERE) as run:
        kernel[(0,)](x, total, 10)
    (result,) = run.results
    assert len(result.trials) == 6
    assert result.winner is not None


def test_stores_to_unknown_memory_cannot_be_restored() -> None:
    @triton.autotune([triton.Config({"BLOCK": 8}), triton.Config({"BLOCK": 16})], key=[])
    @triton.jit
    def scatter_kernel(table_ptr, BLOCK: tl.constexpr):
        out = tl.load(table_ptr).to(tl.pointer_type(tl.float32))
        offs = tl.arange(0, BLOCK)
        tl.store(out + offs, tl.load(out + offs, mask=offs < 8) + 1, mask=offs < 8)

    for checks in (Checks(), Checks(sanitize=True)):
        out = torch.zeros(8)
        table = torch.tensor([out.data_ptr(), 1 << 46])  # one of the addresses belongs to no tensor
        with TuningRun(TuneOptions(workers=0, checks=checks)) as run:
            scatter_kernel[(1,)](table)
        assert out.tolist() == [1.0] * 8, "the kernel ran once, in its first configuration"
        (note,) = run.results[0].notes
        assert note.startswith("not tuned: `scatter_kernel` stores through pointers")
        assert "`table_ptr` has an address that cannot be followed" in note


def test_hooks_and_resets_are_not_timed() -> None:
    import time

    slow = triton.Config(
        {"BLOCK": 128, "WRONG": False}, pre_hook=lambda arguments: time.sleep(0.02)
    )
    with TuningRun(HERE) as run:
        launch(kernel_of(config(1), slow))
    trials = list(run.results[0].trials.values())
    assert all(0 < (trial.seconds or 0) < 0.02 for trial in trials)
    assert [trial.status for trial in trials] == ["ok", "ok"]


def test_a_full_store_does_not_fail_the_run(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    run = TuningRun(HERE, store=path)
    store = run._store
    assert store is not None
    store._base.execute("PRAGMA max_page_count = 1")
    (pages,) = store._base.execute("PRAGMA page_count").fetchone()
    store._base.execute(f"PRAGMA max_page_count = {pages}")
    with run:
        launch(
            kernel_of(
                *(
                    triton.Config({"BLOCK": 64, "WRONG": False}, num_warps=1 << w, num_stages=s)
                    for w in range(4)
                    for s in range(1, 9)
                )
            )
        )
    (result,) = run.results
    assert len(result.trials) == 32
    assert result.winner is not None
    (note,) = run.notes
    assert "full; its earlier contents are unchanged" in note
    kept = TuningStore(path).entries()
    assert len(kept) <= 1
    assert sum(len(sample.trials) for sample in kept) < 32


def test_the_first_of_equal_medians_wins() -> None:
    first, second = candidates([triton.Config({"A": 1}), triton.Config({"A": 2})])
    assert winner([(second, [1.0, 1.0, 9.0]), (first, [1.005] * 3)]) is first
    assert winner([(second, [1.0, 1.0, 9.0]), (first, [1.02] * 3)]) is second


def test_equals_with_fewer_warps_and_stages_win() -> None:
    options = ((8, 2), (4, 3), (4, 2), (2, 3))
    space = candidates([triton.Config({}, num_warps=w, num_stages=s) for w, s in options])
    times = [[1.0] * 3, [1.0] * 3, [1.005] * 3, [1.1] * 3]
    assert winner(list(zip(space, times, strict=True))) is space[2]


def test_configurations_tie_unless_they_differ_by_more_than_noise() -> None:
    first, second = candidates([triton.Config({"A": 1}), triton.Config({"A": 2})])
    near, far = [0.99, 1.0, 1.02] * 2, [1.01, 1.02, 1.04] * 2
    assert winner([(second, near), (first, far)]) is first, "the difference may be random"
    assert winner([(second, near * 10), (first, far * 10)]) is second
    noisy = [1.0, 1.0, 1.6, 1.6, 1.7, 1.7]
    assert winner([(second, [1.0] * 5 + [1.1]), (first, noisy)]) is second, (
        "the difference is significant"
    )
    assert winner([(second, near * 10), (first, [1.009] * 60)]) is first


@settings(max_examples=40)
@given(st.lists(st.integers(100, 130), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_candidates_that_may_equal_the_best_are_finalists(
    costs: list[int], order: random.Random
) -> None:
    space = candidates([triton.Config({"A": n}) for n in range(len(costs))])
    timed = list(zip(space, map(float, costs), strict=True))
    chosen = [config.index for config in finalists(timed)]
    order.shuffle(timed)
    assert [config.index for config in finalists(timed)] == chosen == sorted(chosen)
    least = min(costs)
    assert costs.index(least) in chosen
    equal = [place for place, cost in enumerate(costs) if cost <= least * 1.03]
    assert equal[:MOST_EQUAL] == [place for place in chosen if place in equal[:MOST_EQUAL]]
    assert len(chosen) <= MOST_EQUAL + MOST_FINALISTS
    assert all(costs[place] <= least * 1.15 for place in chosen)


def test_a_single_configuration_needs_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock.json"
    with TuningRun(HERE, lock=path):
        launch(kernel_of(config(16), config(64)))
    with TuningRun(lock=path, locked=True) as run:
        launch(kernel_of(config(32)))
    assert list(run.single) == ["add_to_kernel"]


def test_an_interrupted_run_can_be_continued(tmp_path: Path) -> None:
    def interrupt(arguments: object) -> None:
        raise KeyboardInterrupt

    path, second = tmp_path / "store.sqlite", config(64)
    kernel = kernel_of(config(16), second, config(32))
    second.pre_hook = interrupt
    with pytest.raises(KeyboardInterrupt), TuningRun(HERE, store=path) as run:
        launch(kernel)
    (result,) = run.results
    assert (len(result.trials), result.complete) == (1, False)
    assert result.winner is not None
    second.pre_hook = None
    with TuningRun(HERE, store=path) as run:
        launch(kernel)
    (result,) = run.results
    assert (len(result.trials), len(result.new), result.complete) == (3, 2, True)


def test_locked_needs_a_file() -> None:
    with pytest.raises(UsageError, match="--locked needs the lock file"):
        TuningRun(locked=True)


def test_a_search_ends_close_to_the_optimum() -> None:
    configs = [
        triton.Config({"BLOCK": 1 << b, "WRONG": False}, num_warps=1 << w, num_stages=s)
        for b in range(5, 9)
        for w in range(4)
        for s in (1, 2)
    ]
    with TuningRun(TuneOptions(workers=0, within=2000.0)) as run:
        launch(kernel_of(*configs))
    (result,) = run.results
    assert 8 <= len(result.trials) < len(configs)
    assert result.complete
    assert result.bound is not None
    assert 0 <= result.bound <= 2000
    with pytest.raises(UsageError, match="must be a positive percentage"):
        TuneOptions(within=0.0)
