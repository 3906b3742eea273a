"""`@tune` as a replacement of `@triton.autotune`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import ttools.tuner
from ttools.core.errors import UsageError
from ttools.tuner import TuneOptions, TuningRun
from ttools.tuner.measure.bench import Bench
from ttools.tuner.space.candidate import Candidate
from ttools.tuner.store.store import TuningStore

HERE = TuneOptions(workers=0)


@triton.jit
def add_to_kernel(x_ptr, total_ptr, n, BLOCK: tl.constexpr, WRONG: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask) + (1 if WRONG else 0)
    tl.store(total_ptr + offs, tl.load(total_ptr + offs, mask=mask) + x, mask=mask)


def config(block: int, wrong: bool = False, **options) -> triton.Config:
    return triton.Config({"BLOCK": block, "WRONG": wrong}, **options)


def launch(kernel, n: int = 1000, total: float = 1.0) -> torch.Tensor:
    x, out = torch.arange(float(n)), torch.full((n,), total)
    kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
    return out - x


def test_the_first_launch_of_a_key_is_tuned_and_remembered(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"

    def decorated():
        own = [config(64), config(1024, wrong=True), config(128)]
        return ttools.tuner.tune(own, key=["n"], options=HERE, store=store)(add_to_kernel)

    kernel = decorated()
    assert isinstance(kernel, triton.runtime.Autotuner)
    assert launch(kernel).unique().tolist() == [1.0]
    assert kernel.best_config.kwargs["WRONG"] is False
    assert launch(kernel).unique().tolist() == [1.0]
    assert launch(kernel, 500).unique().tolist() == [1.0]
    kept = TuningStore(store)
    entries = kept.entries()
    kept.close()
    statuses = [sorted(t.status for t in entry.trials) for entry in entries]
    assert statuses == [["ok", "ok", "wrong"]] * 2
    # ---- a new kernel object, as in another process: nothing is measured, and the winner is the
    # same
    winner = kernel.cache
    again = decorated()
    launch(again)
    assert again.best_config.kwargs in [stored.kwargs for stored in winner.values()]
    kept = TuningStore(store)
    assert kept.entries() == entries
    kept.close()


def test_stored_tunings_need_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def decorated(options: TuneOptions):
        own = [config(64), config(256), config(128)]
        store = tmp_path / "store.sqlite"
        return ttools.tuner.tune(own, key=["n"], options=options, store=store)(add_to_kernel)

    first = decorated(HERE)
    launch(first)
    monkeypatch.setattr(TuningRun, "_start_workers", lambda run: pytest.fail("it starts workers"))
    again = decorated(TuneOptions())
    assert launch(again).unique().tolist() == [1.0]
    assert again.best_config.kwargs == first.best_config.kwargs
    assert again.configs_timings.keys() == first.configs_timings.keys()


def test_resets_hooks_and_pruning_work_as_in_autotune(tmp_path: Path) -> None:
    pruned: list[int] = []

    def prune(configs, named, **options):
        pruned.append(named["n"])
        return [candidate for candidate in configs if candidate.kwargs["BLOCK"] <= 128]

    hooks: list[bool] = []
    kernel = ttools.tuner.tune(
        [config(64), config(128), config(1024)],
        key=["n"],
        prune_configs_by={"early_config_prune": prune},
        reset_to_zero=["total_ptr"],
        options=HERE,
        store=tmp_path / "store.sqlite",
        warmup=5,
    )(add_to_kernel)
    assert launch(kernel, total=7.0).unique().tolist() == [0.0], (
        "the output is zeroed before the launch"
    )
    assert launch(kernel, total=7.0).unique().tolist() == [7.0], (
        "as in autotune, nothing is reset after tuning"
    )
    assert pruned == [1000]
    kept = TuningStore(tmp_path / "store.sqlite")
    (entry,) = kept.entries()
    kept.close()
    assert sorted(t.values["BLOCK"] for t in entry.trials) == [64, 128]
    hooked = ttools.tuner.tune(
        [config(64), config(128)],
        key=[],
        pre_hook=lambda arguments, reset_only=False: hooks.append(reset_only),
        options=HERE,
        store=tmp_path / "store.sqlite",
    )(add_to_kernel)
    launch(hooked)
    assert hooks
    assert all(hooks)


def test_timings_are_kept_and_printed_as_in_autotune(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
    kernel = ttools.tuner.tune(
        [config(64), config(1024, wrong=True), config(128)],
        ["n"],
        options=HERE,
        store=tmp_path / "store.sqlite",
    )(add_to_kernel)
    launch(kernel)
    assert set(kernel.configs_timings) == set(kernel.configs)
    right, wrong, failed = (kernel.configs_timings[candidate] for candidate in kernel.configs)
    assert wrong == [float("inf")] * 3
    for median, low, high in (right, failed):
        assert 0 < low <= median <= high < 1000
    assert 0 < kernel.bench_time < 600
    printed = capsys.readouterr().out
    assert printed.count("Autotuning kernel add_to_kernel with config") == 3
    assert f"best config selected: {kernel.best_config};" in printed


def test_a_benchmark_function_decides(tmp_path: Path) -> None:
    benchmarked: list[tuple[float, ...]] = []

    def do_bench(launch, quantiles):
        launch()
        launch()
        benchmarked.append(quantiles)
        # The second configuration is the fastest, and the third one takes practically forever.
        first = (5.0, 4.0, 6.0) if len(benchmarked) != 2 else (1.0, 1.0, 1.0)
        return [float("inf")] * 3 if len(benchmarked) == 3 else list(first)

    positional = ([config(64), config(128), config(256)], ["n"], None, None, None, None, None)
    kernel = ttools.tuner.tune(
        *(*positional, 5, 10, False, do_bench), options=HERE, store=tmp_path / "store.sqlite"
    )(add_to_kernel)
    assert launch(kernel).unique().tolist() == [1.0]
    assert kernel.best_config.kwargs["BLOCK"] == 128
    assert set(benchmarked) == {(0.5, 0.2, 0.8)}
    timings = {
        candidate.kwargs["BLOCK"]: times for candidate, times in kernel.configs_timings.items()
    }
    assert timings == {
        64: pytest.approx([5.0, 4.0, 6.0]),
        128: pytest.approx([1.0, 1.0, 1.0]),
        256: [float("inf")] * 3,
    }


def test_times_of_another_benchmark_function_are_not_used_again(tmp_path: Path) -> None:
    benchmarked: list[str] = []

    def decorated(do_bench: Any) -> Any:
        return ttools.tuner.tune(
            [config(64), config(128)],
            ["n"],
            do_bench=do_bench,
            options=HERE,
            store=tmp_path / "store.sqlite",
        )(add_to_kernel)

    def first_is_best(launch, quantiles):
        benchmarked.append("first")
        return torch.tensor([1.0 + len(benchmarked), 1.0, 9.0])

    def second_is_best(launch, quantiles):
        benchmarked.append("second")
        return 9.0 - len(benchmarked)

    for do_bench, block, times in ((first_is_best, 64, 2), (second_is_best, 128, 4)):
        kernel = decorated(do_bench)
        launch(kernel)
        assert kernel.best_config.kwargs["BLOCK"] == block
        assert len(benchmarked) == times
    launch(decorated(second_is_best))
    assert len(benchmarked) == 4, "its own times are used"


@pytest.mark.parametrize("decorator", [triton.autotune, ttools.tuner.tune])
def test_a_drop_in_prints_calls_and_refuses_as_autotune(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    decorator: Any,
) -> None:
    """Compare Triton's class with that of ttools; Triton's disk cache replaces the store."""
    heard: list[dict[str, Any]] = []
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(
        triton.knobs.autotuning,
        "listener",
        lambda **sentence: heard.append(sentence),
        raising=False,
    )
    ours = decorator is not triton.autotune
    own = {"options": HERE, "store": tmp_path / "store.sqlite"} if ours else {"cache_results": True}

    def bench(call: Any, quantiles: tuple[float, ...]) -> list[float]:
        call()
        return [1.0, 0.5, 2.0]

    def decorated() -> Any:
        configs = [config(64), config(128)]
        positional = (configs, ["n"], None, None, ["total_ptr"], None, None, None, None, False)
        return decorator(*positional, bench, **own)(add_to_kernel)

    kernel = decorated()
    launch(kernel)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-4:-2] == [
        "Triton autotuning for function add_to_kernel,",
        "with key as (1000, 'torch.float32', 'torch.float32'),",
    ]
    assert lines[-1] == f"best config selected: {kernel.best_config};"
    assert list(kernel.configs_timings.values()) == [pytest.approx([1.0, 0.5, 2.0])] * 2
    assert kernel.bench_time > 0
    assert kernel.cache_results is not ours
    (message,) = heard
    assert set(message) >= {"fn", "key", "best_config", "configs_timings", "duration", "cache_hit"}
    assert (message["cache_hit"], message["duration"] > 0) == (False, True)
    # ---- a new kernel object, as in another process
    launch(decorated())
    assert "best config selected" not in capsys.readouterr().out
    assert (heard[1]["cache_hit"], heard[1]["duration"]) == (True, None)
    # ---- arguments that are passed twice
    with pytest.raises(ValueError, match="Conflicting meta-parameters: BLOCK"):
        decorated()[(1,)](torch.ones(8), torch.ones(8), 9, BLOCK=64)
    # ---- one remaining configuration
    heard.clear()
    capsys.readouterr()
    pruned = decorator(
        [config(64), config(128)],
        ["n"],
        {"early_config_prune": lambda configs, named, **options: configs[1:]},
        **own,
    )(add_to_kernel)
    launch(pruned)
    assert pruned.best_config.kwargs["BLOCK"] == 128
    assert not heard
    assert capsys.readouterr().out == ""
    # ---- no configurations
    empty = decorator([], ["n"], **own)(add_to_kernel)
    assert len(empty.configs) == 1


def test_configurations_are_timed_for_the_given_duration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def a_quarter_of_a_millisecond(self: Bench, candidate: Candidate) -> float:
        calls.append(candidate.key)
        return 2.0**-12

    monkeypatch.setattr(Bench, "time", a_quarter_of_a_millisecond)
    monkeypatch.setattr(Bench, "final", lambda self, finalists, rounds: {})

    def samples(**options: Any) -> list[int]:
        path = tmp_path / f"{options}.sqlite"
        own = [config(64), config(128)]
        launch(ttools.tuner.tune(own, ["n"], options=HERE, store=path, **options)(add_to_kernel))
        kept = TuningStore(path)
        (entry,) = kept.entries()
        kept.close()
        return [len(trial.samples) for trial in entry.trials]

    assert samples(warmup=0, rep=0) == [3, 3]
    calls.clear()
    assert samples(warmup=2**-2 * 1e3, rep=2**-3 * 1e3) == [512, 512]
    assert len(calls) == 2 * (1000 + 512), "the number of warm-up launches has a limit"


def test_a_lock_file_decides(tmp_path: Path) -> None:
    lock, store = tmp_path / "lock.json", tmp_path / "store.sqlite"

    def decorated(*configs: triton.Config, **options):
        return ttools.tuner.tune(
            list(configs), ["n"], options=HERE, store=store, lock=lock, **options
        )(add_to_kernel)

    launch(decorated(config(64), config(128)))
    assert lock.exists()
    store.unlink()
    locked = decorated(config(128), config(64), config(256), locked=True)
    launch(locked)
    assert locked.best_config.kwargs["BLOCK"] in (64, 128)
    assert not store.exists()
    with pytest.raises(UsageError, match="no winner for this key; tune without --locked"):
        launch(locked, 50)


def test_a_single_configuration_needs_no_tuning(tmp_path: Path) -> None:
    kernel = ttools.tuner.tune([config(64)], [], store=tmp_path / "none" / "store.sqlite")
    assert launch(kernel(add_to_kernel)).unique().tolist() == [1.0]


def test_launches_that_cannot_be_tuned_warn_and_run(tmp_path: Path) -> None:
    @triton.jit
    def scatter_kernel(address, BLOCK: tl.constexpr):
        out = address.to(tl.pointer_type(tl.float32))
        tl.store(out + tl.arange(0, BLOCK), 1.0)

    out = torch.zeros(8)
    kernel = ttools.tuner.tune(
        [triton.Config({"BLOCK": 8}), triton.Config({"BLOCK": 4})],
        [],
        options=HERE,
        store=tmp_path / "store.sqlite",
    )(scatter_kernel)
    with pytest.warns(RuntimeWarning, match="not tuned: `scatter_kernel` stores through pointers"):
        kernel[(1,)](out.data_ptr())
    assert out.tolist() == [1.0] * 8


def test_unknown_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'configz'"):
        ttools.tuner.tune([], [], configz=[])  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"configs": 3}, "configs must be a list of triton.Config"),
        ({"configs": [{"BLOCK": 3}]}, "configs must be a list of triton.Config"),
        ({"configs": [], "options": 3}, "options must be TuneOptions, not a int"),
        ({"configs": [], "rep": "long"}, "rep='long': must be a number of milliseconds"),
        ({"configs": [], "warmup": -1}, "warmup=-1: must be a number of milliseconds"),
        ({"configs": [], "do_bench": 3}, "do_bench=3: must be a function"),
        ({"configs": [], "on": "tpu"}, "on='tpu': must be auto, cpu or gpu"),
    ],
)
def test_invalid_arguments(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        ttools.tuner.tune(key=[], **arguments)
