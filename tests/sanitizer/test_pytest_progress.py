"""Progress of long launches in the pytest plugin, and messages about interrupted ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sanitizer.plugin_runs import Pytest, outcomes

from ttools.core.process import phases
from ttools.core.process.phases import Work
from ttools.sanitizer import pytest_progress
from ttools.sanitizer.pytest_progress import PhaseProgress

SLOW = """\
import os, signal
from kernels import run
from ttools.core.process.phases import current_work, tick
from ttools.sanitizer.checks import racecheck

near = racecheck.near_accesses

def late(monitor):
    current_work().phase.deadline = 0.0
    tick(5, 20, "records")
    return near(monitor)

def test_slow(monkeypatch):
    monkeypatch.setattr(racecheck, "near_accesses", late)
    run(mask=True)

def test_interrupted(monkeypatch):
    run(mask=True)
    monkeypatch.setattr(racecheck, "near_accesses", lambda _: signal.raise_signal(signal.SIGINT))
    run(mask=True)
"""

COMPILES_LONG = """\
import sys
sys.path.insert(0, {root!r})
import torch
from kernels import copy, run
from tests.slow_compilers import endless_compilation

def test_long():
    with endless_compilation("copy"):
        run(mask=True)

def test_after_that():
    x, out = torch.ones(1), torch.zeros(1)
    copy[(1,)](x, out, 1, BLOCK=16, MASK=True)
    assert out == 1
"""


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_progress_of_long_phases_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, lines = Clock(), list[str]()
    for module in (phases, pytest_progress):
        monkeypatch.setattr(module, "time", clock)
    shown = PhaseProgress(lines.append)
    shown.test = "test_k.py::test_compact"
    shown.look([])
    with Work("compact", 3, None, "race analysis") as work:
        for clock.now in range(100, 126):
            work.tick(int(clock.now) * 1000, 4_000_000, "records")
            shown.look([work])
    head, tail = (
        "ttools sanitize: race analysis of compact (launch 3): ",
        "(test_k.py::test_compact)",
    )
    assert lines == [
        f"{head}{n},000 of 4,000,000 records, {n - 100} s {tail}" for n in (105, 115, 125)
    ]


def test_a_phase_that_takes_too_long_fails_the_test(run_pytest: Pytest) -> None:
    result = run_pytest(SLOW, "--ttools-sanitize", "-k", "slow")
    assert result.returncode == 1
    message = "race analysis of launch 1 of kernel `copy` was stopped after "
    assert message in " ".join(result.stdout.split())
    assert "races in this launch were not checked for" in result.stdout
    last = (
        "ttools sanitize: checked 0 launches in 1 test; not checked to the end: `copy` (launch 1: "
    )
    assert last in result.stdout


@pytest.mark.parametrize("workers", [(), pytest.param(("-n", "1"), marks=pytest.mark.slow)])
def test_a_compilation_that_takes_too_long_is_stopped(
    run_pytest: Pytest, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    if workers:
        pytest.importorskip("xdist")
    monkeypatch.setenv("TTOOLS_CACHE", "off")
    text = COMPILES_LONG.format(root=str(Path(__file__).parents[2]))
    options = ("--ttools-sanitize", "--ttools-timeout=2", "-rA", *workers)
    result = run_pytest(text, *options)
    assert outcomes(result) == {"test_long": "FAILED", "test_after_that": "PASSED"}, result.stdout
    message = "compilation of launch 1 of kernel `copy` was stopped after "
    assert message in " ".join(result.stdout.split())


def test_ctrl_c_in_an_analysis(run_pytest: Pytest) -> None:
    result = run_pytest(SLOW, "--ttools-sanitize", "-k", "interrupted")
    assert result.returncode == pytest.ExitCode.INTERRUPTED
    last = "ttools sanitize: checked 1 launch in 1 test; not checked to the end: `copy` (launch 2: "
    assert f"{last}race analysis interrupted after " in result.stdout


@pytest.mark.parametrize(
    "limit", ["--ttools-timeout=-1", "--ttools-timeout=soon", "ttools_timeout"]
)
def test_an_invalid_limit_is_refused(run_pytest: Pytest, limit: str) -> None:
    options = [limit] if limit.startswith("-") else ["-o", "ttools_timeout=nan"]
    result = run_pytest(SLOW, "--ttools-sanitize", *options)
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert "must be a number of seconds, or 0" in result.stderr


CONFTEST = """\
import threading
from ttools.sanitizer import pytest_progress

pytest_progress._SHOWN_AFTER_S = pytest_progress._LINE_EVERY_S = 0.0
pytest_progress._LOOKED_AT_EVERY_S = 0.001
shown = threading.Event()
look = pytest_progress.PhaseProgress.look

def looked(self, works):
    look(self, works)
    if works and works[0].phase.done == 5:
        shown.set()

pytest_progress.PhaseProgress.look = looked
"""
WAITS = """\
from conftest import shown
from kernels import run
from ttools.core.process.phases import tick
from ttools.sanitizer.checks import racecheck

near = racecheck.near_accesses

def waits(monitor):
    tick(5, 20, "records")
    assert shown.wait(60)
    return near(monitor)

def test_waits(monkeypatch):
    monkeypatch.setattr(racecheck, "near_accesses", waits)
    run(mask=True)
"""


@pytest.mark.parametrize("capture", ["fd", "sys", "no"])
def test_progress_is_shown_with_any_capture_mode(run_pytest: Pytest, capture: str) -> None:
    files = {"conftest.py": CONFTEST, "test_it.py": WAITS}
    result = run_pytest(files, "--ttools-sanitize", f"--capture={capture}")
    assert result.returncode == 0, result.stdout
    line = "ttools sanitize: race analysis of copy (launch 1): 5 of 20 records, 0 s "
    assert f"{line}(test_it.py::test_waits)" in result.stderr.splitlines()
