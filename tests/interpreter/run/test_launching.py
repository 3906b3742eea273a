"""Tests of launches: running, counting, observers, and confinement of untrusted kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ttools.core.buffers import ArrayBuffer
from ttools.core.spec import CallSite, CompileOptions
from ttools.interpreter import interpret
from ttools.interpreter.abi.arguments import ArgumentPlan
from ttools.interpreter.abi.module import Instruments
from ttools.interpreter.run.interpretation import active_run
from ttools.interpreter.run.kernel_launch import ExecutableKernel, KernelLaunch
from ttools.interpreter.run.launching import make_launch
from ttools.interpreter.run.variants import Variants
from ttools.interpreter.runtime.launch import LaunchReport

NUMBERS = """
module {
  tt.func public @numbers(%out: !tt.ptr<i32>, %first: i32) {
    %pid = tt.get_program_id x : i32
    %number = arith.addi %pid, %first : i32
    %place = tt.addptr %out, %pid : !tt.ptr<i32>, i32
    tt.store %place, %number : !tt.ptr<i32>
    tt.return
  }
}
"""


@dataclass
class Recorder:
    """An observer that runs launches and records them."""

    launches: list[KernelLaunch] = field(default_factory=list)

    def launch(self, launch: KernelLaunch) -> LaunchReport:
        """Run a launch without instruments."""
        self.launches.append(launch)
        return launch.execute(Instruments())


def kernel(**more: Any) -> ExecutableKernel:
    """Return a kernel that stores `first + pid` at element `pid`."""
    plan = ArgumentPlan(["out", "first"], ["*i32", "i32"])
    variants = Variants("numbers", NUMBERS)
    options = CompileOptions(debug=True)
    return ExecutableKernel(name="numbers", plan=plan, variants=variants, options=options, **more)


@pytest.fixture
def out() -> np.ndarray[Any, Any]:
    return np.zeros(8, np.int32)


@pytest.mark.parametrize("within_run", [False, True])
def test_every_program_runs(out: np.ndarray[Any, Any], within_run: bool) -> None:
    with interpret() as run:
        owner = active_run() if within_run else None
        report = make_launch(KernelLaunch(kernel(), (4,), [ArrayBuffer(out), 7], owner))
    assert out.tolist() == [7, 8, 9, 10, 0, 0, 0, 0]
    assert report.programs == 4
    counted = [(entry.kernel, entry.launches, entry.programs) for entry in run.stats]
    assert counted == ([("numbers", 1, 4)] if within_run else [])


def test_the_run_selects_programs(out: np.ndarray[Any, Any]) -> None:
    with interpret(programs="1,3"):
        make_launch(KernelLaunch(kernel(), (4,), [ArrayBuffer(out), 7], active_run()))
    assert out.tolist() == [0, 8, 0, 10, 0, 0, 0, 0]


def test_the_observer_gets_all_fields_of_the_launch(out: np.ndarray[Any, Any]) -> None:
    recorder, ran = Recorder(), []
    values, passed, unflattened = [ArrayBuffer(out), 7], ["as", "passed"], ["as", "in", "Python"]
    site = CallSite(config={"size": 4}, line="run.py:3")
    launched = kernel(function=len, source=max, eager_twin=lambda *arguments: ran.append(arguments))
    with interpret(observer=recorder) as run:
        kernel_launch = KernelLaunch(launched, (2,), values, active_run(), unflattened)
        kernel_launch.passed, kernel_launch.site = passed, site
        make_launch(kernel_launch)
    (launch,) = recorder.launches
    assert out.tolist()[:3] == [7, 8, 0]
    assert launch.kernel is launched
    assert (launch.grid, launch.values, launch.arguments) == ((2,), values, passed)
    assert launch.site is site
    assert launch.eagerly is not None
    launch.eagerly("0,1")
    assert ran == [((2,), unflattened, values, "0,1")]
    assert [entry.launches for entry in run.stats] == [1]


def test_by_default_arguments_are_the_values(out: np.ndarray[Any, Any]) -> None:
    recorder, values = Recorder(), [ArrayBuffer(out), 7]
    with interpret(observer=recorder):
        make_launch(KernelLaunch(kernel(), (1,), values, active_run()))
    (launch,) = recorder.launches
    assert launch.arguments is values
    assert (launch.eagerly, launch.site.config, launch.site.line) == (None, None, None)


@pytest.mark.parametrize("observed", [False, True])
def test_an_untrusted_kernel_stays_in_its_memory(out: np.ndarray[Any, Any], observed: bool) -> None:
    inner = out[:2].copy()
    recorder = Recorder() if observed else None
    with interpret(observer=recorder) as run:
        untrusted = kernel(record=Path("launch.tt"))
        make_launch(KernelLaunch(untrusted, (5,), [ArrayBuffer(inner), 7], active_run()))
    assert inner.tolist() == [7, 8]
    (skipped,) = run.skipped
    assert (skipped.kernel, skipped.kind, skipped.lanes) == ("numbers", "store", 3)
    assert "`ttools sanitize launch.tt`" in skipped.describe("launch.tt")
    if recorder is not None:
        assert [launch.kernel.record for launch in recorder.launches] == [Path("launch.tt")]


def test_options_of_runs_are_separate(out: np.ndarray[Any, Any]) -> None:
    executable, options = kernel(), []
    for schedule in ("fused", "materialised", "fused"):
        with interpret(schedule=schedule):
            options.append(executable.emit_options(active_run()))
    assert [option.schedule for option in options] == ["fused", "materialised", "fused"]
    assert options[0] is options[2]
    assert executable.emit_options(None).schedule == "fused"
