"""Tests of `interpret()` as context manager and decorator: selection, options and nesting."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from plugin_kernels import add_kernel, fill_kernel
from triton.runtime.autotuner import Autotuner

from ttools.core.errors import UsageError
from ttools.interpreter import interpret
from ttools.interpreter.abi.module import Instruments
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.interpreter.runtime.launch import LaunchReport

N = 1000


class Counting:
    """An observer that keeps launches and runs them unchanged."""

    def __init__(self) -> None:
        self.launches: list[KernelLaunch] = []

    def launch(self, launch: KernelLaunch) -> LaunchReport:
        self.launches.append(launch)
        return launch.execute(Instruments())


def add(out: torch.Tensor, block: int = 128) -> None:
    x = torch.ones(N)
    add_kernel[(triton.cdiv(N, block),)](x, x, out, N, BLOCK=block)


@pytest.mark.smoke
def test_counts_launches_programs_and_times() -> None:
    out = torch.zeros(N)
    with interpret() as run:
        add(out)
        add(out)
        fill_kernel[(2,)](out, 3.0, BLOCK=16)
    assert [(s.kernel, s.launches, s.programs) for s in run.stats] == [
        ("add_kernel", 2, 16),
        ("fill_kernel", 1, 2),
    ]
    assert all(s.run_s > 0 for s in run.stats)
    assert run.warnings == []


def test_compile_time_and_cache_hits_are_counted() -> None:
    @triton.jit
    def fresh_kernel(x_ptr, BLOCK: tl.constexpr):
        offsets = tl.arange(0, BLOCK)
        tl.store(x_ptr + offsets, offsets * 17)

    x = torch.zeros(16, dtype=torch.int32)
    with interpret() as run:
        fresh_kernel[(1,)](x, BLOCK=16)
    assert run.stats[0].front_end_s > 0
    assert run.stats[0].compile_s > 0


@pytest.mark.usefixtures("cpu_is_default")
@pytest.mark.parametrize("only", [["fill_kernel"], lambda name: name.startswith("fill")])
def test_selection_by_name_and_by_predicate(only: Any) -> None:
    out = torch.zeros(N)
    with interpret(only=only) as run:
        add(out)
        fill_kernel[(1,)](out, 3.0, BLOCK=16)
    assert [s.kernel for s in run.stats] == ["fill_kernel"]


def test_kernels_have_the_name_of_their_function() -> None:
    @triton.jit(repr=lambda specialization: "renamed_by_repr")
    def named_kernel(x_ptr):
        tl.store(x_ptr, 1.0)

    with interpret(only=["named_kernel"]) as run:
        kernel = named_kernel[(1,)](torch.zeros(1))
    assert kernel.metadata.name == "renamed_by_repr"
    assert [(s.kernel, s.launches) for s in run.stats] == [("named_kernel", 1)]


def test_decorated_functions_add_up_statistics() -> None:
    run = interpret()

    @run
    def work(out: torch.Tensor) -> str:
        """Docs."""
        add(out)
        return "done"

    assert work.__name__ == "work"
    assert work(torch.zeros(N)) == "done"
    work(torch.zeros(N))
    assert run.stats[0].launches == 2


def test_nested_runs_both_count() -> None:
    out = torch.zeros(N)
    with interpret() as outer:
        add(out)
        with interpret() as inner:
            add(out)
            fill_kernel[(2,)](out, 3.0, BLOCK=16)
        add(out)
    assert [(s.kernel, s.launches) for s in outer.stats] == [("add_kernel", 3), ("fill_kernel", 1)]
    assert [(s.kernel, s.launches) for s in inner.stats] == [("add_kernel", 1), ("fill_kernel", 1)]


def test_kernels_that_a_nested_run_excludes_count_in_the_outer_one() -> None:
    out = torch.zeros(N)
    with interpret(only=["add_kernel"]) as outer, interpret(only=["fill_kernel"]) as inner:
        add(out)
        fill_kernel[(2,)](out, 3.0, BLOCK=16)
    assert [s.kernel for s in outer.stats] == ["add_kernel"]
    assert [s.kernel for s in inner.stats] == ["fill_kernel"]


def test_the_observer_of_the_outer_run_sees_launches_of_a_nested_one() -> None:
    observer = Counting()
    with interpret(observer=observer, only=["add_kernel"], threads=1):
        with interpret(programs="0", dot="exact") as inner:
            out = torch.zeros(N)
            add(out)
            fill_kernel[(2,)](out, 3.0, BLOCK=16)
        workers = [threading.Thread(target=add, args=(torch.zeros(N),)) for _ in range(2)]
        with inner:
            for worker in workers:
                worker.start()
                worker.join()
    assert [launch.kernel.name for launch in observer.launches] == ["add_kernel"] * 3
    (first, *_) = observer.launches
    # The observer's run determines the threads; the inner run determines programs and semantics.
    assert (first.run.launch_options.threads, first.run.launch_options.programs) == (1, "0")
    assert first.kernel.emit_options(first.run).dot == "exact"
    assert out.unique().tolist() == [0.0, 2.0, 3.0]
    assert [(s.kernel, s.launches) for s in inner.stats] == [("add_kernel", 3), ("fill_kernel", 1)]


def test_a_nested_run_of_the_eager_engine_is_not_observed_and_warns() -> None:
    observer = Counting()
    with interpret(observer=observer) as outer, interpret(engine="eager") as inner:
        add(torch.zeros(N))
    assert observer.launches == []
    assert outer.warnings == [
        (
            "kernel `add_kernel` ran as Python and was not checked, as the script's own "
            "interpret() requests"
        )
    ]
    assert inner.stats[0].launches == 1
    with interpret() as plain, interpret(engine="eager"):
        add(torch.zeros(N))
    assert plain.stats[0].launches == 1


def test_a_run_can_be_entered_again() -> None:
    run = interpret()
    with run, run:
        add(torch.zeros(N))
    assert run.stats[0].launches == 1


def test_everything_is_restored_after_an_error() -> None:
    from triton.runtime.jit import JITFunction

    def state() -> tuple[Any, ...]:
        driver = triton.runtime.driver.active
        return JITFunction.run, JITFunction._do_compile, Autotuner.run, driver

    before = state()
    with interpret():
        assert state() != before

    @interpret()
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert state() == before


def test_selected_programs_and_orders() -> None:
    out = torch.zeros(N)
    with interpret(programs="0,last") as run:
        add(out)
    assert run.stats[0].programs == 2
    assert out[0] == 2
    assert out[200] == 0
    for order in ("natural", "reverse", "random"):
        out.zero_()
        with interpret(order=order, threads=2, seed=3):
            add(out)
        assert (out == 2).all()


def test_the_materialised_schedule_computes_the_same() -> None:
    out = torch.zeros(N)
    with interpret(schedule="materialised"):
        add(out)
    assert (out == 2).all()


@pytest.mark.parametrize(
    "options",
    [
        {"order": "sideways"},
        {"schedule": "best"},
        {"threads": 0},
        {"programs": "first"},
        {"only": "add_kernel"},
    ],
)
def test_invalid_options_are_errors(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        interpret(**options)


def test_threads_use_their_own_run_or_that_of_the_process() -> None:
    runs: dict[str, Any] = {}
    together = threading.Barrier(2)

    def work(name: str) -> None:
        with interpret() as run:
            together.wait(timeout=30)
            for _ in range(5):
                add(torch.zeros(N))
            together.wait(timeout=30)
        runs[name] = run

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [runs[name].stats[0].launches for name in "ab"] == [5, 5]

    with interpret() as run:
        worker = threading.Thread(target=add, args=(torch.zeros(N),))
        worker.start()
        worker.join()
    assert run.stats[0].launches == 1


def test_launches_in_an_older_context_belong_to_the_active_run() -> None:
    older = contextvars.copy_context()
    with interpret() as ended:
        stale = contextvars.copy_context()
    with interpret() as run:
        for context in (older, stale):
            context.run(add, torch.zeros(N))
    assert run.stats[0].launches == 2
    assert ended.stats == []


def test_tasks_use_their_own_run() -> None:
    runs: dict[str, Any] = {}

    async def entering(inside: asyncio.Event, finished: asyncio.Event) -> None:
        with interpret() as runs["own"]:
            add(torch.zeros(N))
            inside.set()
            await finished.wait()

    async def other(inside: asyncio.Event, finished: asyncio.Event) -> None:
        await inside.wait()
        add(torch.zeros(N))
        finished.set()

    async def run_tasks() -> None:
        events = asyncio.Event(), asyncio.Event()
        await asyncio.gather(entering(*events), other(*events))

    with interpret() as runs["outer"]:
        asyncio.run(run_tasks())
    # The launch of the other task counts in the outer run only.
    assert [runs[name].stats[0].launches for name in ("own", "outer")] == [1, 2]


# ---- autotuners

CONFIGS = [triton.Config({"BLOCK": block}, num_warps=w) for block, w in ((32, 4), (256, 8))]


def make_tuned(**options: Any) -> Any:
    @triton.autotune(configs=CONFIGS, key=["n"], **options)
    @triton.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
    @triton.jit
    def tuned_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        value = tl.load(x_ptr + offsets, mask=mask) + (1 if EVEN else 2)
        tl.store(out_ptr + offsets, value, mask=mask)

    return tuned_kernel


def launch_tuned(kernel: Any, x: torch.Tensor, out: torch.Tensor) -> None:
    kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())


@pytest.mark.usefixtures("cpu_is_default")
def test_autotune_and_heuristics_without_a_run() -> None:
    kernel = make_tuned()
    x, out = torch.randn(N), torch.zeros(N)
    launch_tuned(kernel, x, out)
    torch.testing.assert_close(out, x + 1)
    assert kernel.best_config in CONFIGS


def test_first_config_measures_nothing_and_keeps_the_cache_of_the_tuner() -> None:
    kernel = make_tuned()
    x, out = torch.randn(N), torch.zeros(N)
    with interpret(first_config=True) as run:
        launch_tuned(kernel, x, out)
    torch.testing.assert_close(out, x + 1)
    assert run.stats[0].launches == 1
    assert kernel.best_config is CONFIGS[0]
    assert kernel.cache == {}


class SelectingTuner(Autotuner):  # type: ignore[misc]
    """An autotuner that selects the last configuration, and adds 1 to the result."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        self.best_config = self.configs[-1]
        self.fn.run(*args, **kwargs, **self.best_config.all_kwargs())
        args[1].add_(1)


class CountingTuner(Autotuner):  # type: ignore[misc]
    """An autotuner that counts its calls, and lets Triton's method select."""

    calls = 0

    def run(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return super().run(*args, **kwargs)


def test_configurations_of_autotuners_that_select_themselves() -> None:
    kernel, x, out = make_tuned(), torch.randn(N), torch.zeros(N)
    kernel.__class__ = SelectingTuner
    with interpret(first_config=True) as run:
        launch_tuned(kernel, x, out)
    torch.testing.assert_close(out, x + 2)  # its own code has run
    assert (kernel.best_config, run.stats[0].launches) == (CONFIGS[0], 1)
    with interpret(first_config=True, tune=lambda launch: launch.run(launch.configs[1])):
        launch_tuned(kernel, x, out)
    assert kernel.best_config is CONFIGS[1]
    with interpret():
        launch_tuned(kernel, x, out)
    assert kernel.best_config is CONFIGS[-1]
    counting = make_tuned()
    counting.__class__ = CountingTuner
    with interpret(first_config=True):
        launch_tuned(counting, x, out)
    assert (counting.best_config, counting.calls) == (CONFIGS[0], 1)
    torch.testing.assert_close(out, x + 1)


def test_first_config_respects_pruning() -> None:
    def prune(configs: list[Any], named_args: dict[str, Any], **kwargs: Any) -> list[Any]:
        assert named_args["n"] == N
        return [c for c in configs if c.kwargs["BLOCK"] > 100]

    kernel = make_tuned(prune_configs_by={"early_config_prune": prune})
    x, out = torch.randn(N), torch.zeros(N)
    with interpret(first_config=True):
        launch_tuned(kernel, x, out)
    assert kernel.best_config is CONFIGS[1]


def test_restored_arguments_survive_tuning() -> None:
    @triton.autotune(configs=CONFIGS, key=["n"], restore_value=["x_ptr"])
    @triton.jit
    def increment_kernel(x_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + 1, mask=mask)

    x = torch.zeros(N)
    with interpret():
        increment_kernel[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)](x, N)
    assert (x == 1).all()
