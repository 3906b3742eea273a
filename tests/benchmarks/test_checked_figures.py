"""Tests of the summary figures that the benchmark derives from times with checks."""

from __future__ import annotations

import itertools
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark's modules by name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module


def row(bench: Any, title: str, access: str, **seconds: float) -> Any:
    sides = bench("sides")
    times = {
        side: sides.Times(samples=[value], waited=[0.0], peak_bytes=1 << 21)
        for side, value in seconds.items()
    }
    for side in sides.CHECKED:
        if side in times:
            times[side].unchecked = [seconds["ours"]]
    return sides.Row(title, title, 1, times, access)


def test_ratios_are_held_against_the_limit_of_their_access(bench: Any) -> None:
    rows = [
        row(bench, "add", "plain", ours=1.0, memcheck=1.6, checks=4.0),
        row(bench, "dot", "plain", ours=1.0, memcheck=1.0, checks=1.0),
        row(bench, "take", "gathers", ours=1.0, memcheck=1.9, checks=16.0),
        row(bench, "put", "scatters", ours=0.01, memcheck=0.01, checks=2.0),
    ]
    told = {f.name: f for f in bench("figures").speed_figures(rows)}
    mean = told["time under memcheck, geometric mean, 1 thread"]
    assert (mean.value, mean.reached) == (f"{(1.6 * 1.9) ** 0.25:.2f}x", False)
    assert told["time under memcheck, most, 1 thread"].missed_by == ("add",)
    assert told["time under memcheck, most of gathers, 1 thread"].reached
    mean = told["time under default checks, geometric mean, 1 thread"]
    assert (mean.value, mean.limit, mean.reached) == ("4.00x", "≤ 2.0x", False)
    assert told["time under default checks, most, 1 thread"].limit == "≤ 6.0x"
    assert told["time under default checks, most of gathers, 1 thread"].missed_by == ("take",)
    scatter = told["scatter under default checks, most, 1 thread"]
    assert (scatter.value, scatter.limit, scatter.missed_by) == ("2.00 s", "≤ 1 s", ("put",))


def test_what_checks_cost_is_told_by_samples_of_one_process(bench: Any) -> None:
    told = row(bench, "add", "plain", ours=9.0, memcheck=1.0)
    told.times["memcheck"].samples = [1.2, 2.6, 1.4]
    told.times["memcheck"].unchecked = [1.0, 2.0, 1.0]
    assert told.slowdown("memcheck") == 1.3
    assert told.slowdown("checks") is None


@pytest.mark.parametrize("side", ["ours", "memcheck"])
def test_a_side_that_checks_measures_both_by_turns(
    bench: Any, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    measure = bench("measure")
    checks = measure._sanitization(side)
    process = measure.Bench(side, checks)
    process.prepare("add_1m_f32")
    seen: list[bool] = []

    def launches() -> int:
        return sum(entry.count for entry in checks.launches) if checks else 0

    def sample(call: Any) -> tuple[float, float, int]:
        before = launches()
        call()
        seen.append(launches() > before)
        return 2.0 if seen[-1] else 1.0, 0.0, 1

    monkeypatch.setattr(measure, "sample", sample)
    answers = [process.measure() for _ in range(2)]
    if checks:
        # What comes first is for nobody.
        assert seen == [False, True, False, False, False, True]
        assert [(each["seconds"], each["unchecked"]) for each in answers] == [(2.0, 1.0)] * 2
    else:
        assert not any("unchecked" in each for each in answers)


def test_sides_that_did_not_run_make_no_figures(bench: Any) -> None:
    rows = [row(bench, "add", "plain", ours=1.0, torch=1.0)]
    assert not [f for f in bench("figures").speed_figures(rows) if "under" in f.name]
    assert bench("report").check_sheet(rows, 1) is None


def test_sheet_shows_times_ratios_and_memory(bench: Any) -> None:
    rows = [row(bench, "add", "plain", ours=1e-3, memcheck=1.5e-3)]
    rows[0].times["memcheck"].findings = ["oob_load (error)"]
    sheet = bench("report").check_sheet(rows, 1)
    assert sheet.heads == (
        "ms",
        "ttools",
        "memcheck",
        "memcheck / unchecked",
        "ours MiB",
        "memcheck MiB",
    )
    assert sheet.rows == (("add", "1.000", "1.500", "1.50x", "2.0", "2.0"),)
    assert sheet.notes == ("add: memcheck found oob_load (error)",)


def test_compilation_is_told_per_kernel(bench: Any) -> None:
    record = {"workload": "add", "title": "add", "kernel": "k", "ours": 0.1}
    records = [{**record, "memcheck": 0.2, "checks": 0.4}]
    told = {f.name: f for f in bench("figures").checked_compile_figures(records)}
    assert told["cold compilation under memcheck, most"].reached
    assert told["cold compilation under default checks, most"].missed_by == ("k (add)",)
    sheet = bench("report").checked_compile_sheet(records)
    assert sheet.rows == (("k, add", "100.0", "200.0", "400.0", "2.00x", "4.00x"),)


def test_what_a_kernel_takes_to_compile_is_the_median_of_all_rounds(bench: Any) -> None:
    def record(seconds: float) -> dict[str, Any]:
        return {"kernel": "k", "seconds": seconds, "phases": {"emit": seconds / 2}}

    rounds = [
        [record(ours), record(2 * ours), record(checks)]
        for ours, checks in ((1.0, 9.0), (8.0, 3.0), (2.0, 4.0))
    ]
    medians = bench("checked_compile_time")._medians(rounds)
    assert {side: medians[side] for side in ("kernel", "ours", "memcheck", "checks")} == {
        "kernel": "k",
        "ours": 2.0,
        "memcheck": 4.0,
        "checks": 4.0,
    }
    phases = medians["phases"]["checks"]
    assert (phases["emit"], phases["codegen"]) == (2.0, 0.0)


def test_what_triton_itself_takes_is_told_apart(bench: Any) -> None:
    phases = {"make_ir": 0.1, "ttir passes": 0.04, "codegen": 0.06, "total": 0.21}
    record = {"kernel": "sort_kernel", "title": "sort", "phases": phases}
    told = {f.name: f for f in bench("figures").compile_figures({"cold": [{}, record]})}
    assert told["cold compilation, most"].missed_by == ("sort_kernel (sort)",)
    ours = told["cold compilation without Triton's front end, most"]
    assert (ours.value, ours.reached) == ("70 ms", True)


def test_a_side_that_takes_too_long_is_given_up(
    bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sides = bench("sides")
    silent = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    process = sides.SideProcess("viz", 1, tmp_path)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    monkeypatch.setattr(process, "_start", lambda: subprocess.Popen(silent, **pipes))  # type: ignore[call-overload]
    monkeypatch.setitem(sides.PATIENCE_S, "viz", 0.05)
    times = sides.take_turns(
        [process], "add", {}, sides.Plan(sides=["viz"], repeat=1, upstream_repeat=1)
    )
    assert times["viz"].note == "a call takes longer than 0 s"
    assert not times["viz"].samples


@pytest.mark.parametrize(("seconds", "rounds"), [((1.0, 1.0), 4), ((1.0, 3.0), 20)])
def test_what_varies_is_measured_in_more_rounds(
    bench: Any, tmp_path: Path, seconds: tuple[float, float], rounds: int
) -> None:
    sides = bench("sides")
    told = itertools.cycle(seconds)

    class Process:
        side = "ours"

        def ask(self, **request: Any) -> dict[str, Any]:
            return {"error": 0.0} if request else {"seconds": next(told), "waited": 0.0}

    plan = sides.Plan(sides=["ours"], repeat=4, upstream_repeat=1)
    times = sides.take_turns([Process()], "add", {}, plan)
    assert len(times["ours"].samples) == rounds


def test_memory_is_that_of_the_call_at_hand(bench: Any) -> None:
    memory = bench("peak_memory")
    memory.release_free_memory()
    before = memory.forget_peak_memory()
    if before == 0:
        pytest.skip("this system does not tell peak memory")
    held = bytearray(b"x" * (64 << 20))
    assert memory.peak_memory() - before >= len(held)


def test_a_side_with_one_thread_is_measured_with_the_first_number_of_threads(
    bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sides = bench("sides")

    def answer(self: Any, **request: Any) -> dict[str, Any]:
        if "memory" in request:
            return {"peak_bytes": 7}
        return {"error": 0.0} if request else {"seconds": 1.0, "waited": 0.0}

    monkeypatch.setattr(sides.SideProcess, "ask", answer)
    plan = sides.Plan(sides=["ours", "viz"], repeat=2, upstream_repeat=1)
    workload = bench("workloads.workload").Workload(
        name="add", title="add", inputs=tuple, torch_call=tuple, triton_call=tuple
    )
    rows = sides.measure_workloads([workload], [1, 2], plan, tmp_path, lambda row: None)
    assert [sorted(row.times) for row in rows] == [["ours", "viz"], ["ours"]]
    assert [len(rows[0].times[side].samples) for side in ("ours", "viz")] == [2, 1]
    assert [rows[0].times[side].peak_bytes for side in ("ours", "viz")] == [7, 0]
