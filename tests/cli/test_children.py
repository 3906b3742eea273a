"""Kernels that child processes launch are in the sanitizer's report; other commands warn."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

pytest.importorskip("torch", reason="torch is not installed")  # the script needs it

SCRIPT = """\
import multiprocessing
import subprocess
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def fill(out_ptr):
    tl.store(out_ptr, 1.0)


@triton.jit
def fill_here(out_ptr):
    tl.store(out_ptr, 2.0)


def launch():
    fill[(1,)](torch.zeros(1))
    fill[(1,)](torch.zeros(1))


if __name__ == "__main__":
    how = sys.argv[1:]
    if "child" in how:
        launch()
    if "fork" in how:
        multiprocessing.get_context("fork").Process(target=launch).start()
    if "new" in how:
        subprocess.run([sys.executable, __file__, "child"], check=True)
    if "here" in how:
        fill_here[(1,)](torch.zeros(1))
    if "fail" in how:
        sys.exit(3)
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "script.py").write_text(SCRIPT)
    return "script.py"


CHILD = "child processes of the program launched `fill`"
NONE = "no Triton kernel was launched"


@pytest.mark.parametrize("kind", ["fork", pytest.param("new", marks=pytest.mark.slow)])
def test_interpret(ttools: Run, script: str, kind: str) -> None:
    result = ttools("interpret", script, kind)
    assert result.returncode == 0, result.stderr
    assert f"note: {NONE} in this process; {CHILD}, which is not in the report\n" in result.stderr
    assert "nothing was interpreted" not in result.stderr


def test_reports_of_one_process_warn_of_children(ttools: Run, script: str) -> None:
    result = ttools("interpret", "--stats", script, "fork", "here")
    assert "fill_here" in result.stderr
    assert f"note: {CHILD}, which is not in the report\n" in result.stderr
    assert NONE not in result.stderr
    # Without a report, no warning is needed.
    assert CHILD not in ttools("interpret", script, "fork", "here").stderr


@pytest.mark.slow
def test_profile_and_record(ttools: Run, script: str, tmp_path: Path) -> None:
    result = ttools("profile", script, "fork")
    assert f"{CHILD}, which is not in the profile" in result.stderr
    result = ttools("record", script, "fork", "here")
    assert f"{CHILD}, which is not in the record" in result.stderr
    assert (tmp_path / "launch.tt").exists()


def test_sanitize(ttools: Run, script: str) -> None:
    result = ttools("sanitize", script, "fork", "here")
    assert "no finding in 2 kernels, 3 launches" in result.stdout
    assert "warning" not in result.stderr


@pytest.mark.slow
def test_sanitize_warns_of_unchecked_children(ttools: Run, script: str) -> None:
    """Warn of a child process that was started without the environment of the run."""
    code = """if True:
        import os, subprocess, sys
        os.environ.pop("_TTOOLS_RUN")
        subprocess.run([sys.executable, "script.py", "child"], check=True)
    """
    result = ttools("sanitize", "-c", code)
    assert f"warning: {CHILD}, which was not checked there" in result.stderr


@pytest.mark.parametrize("command", ["interpret", "sanitize", "profile", "record", "tune"])
def test_failing_scripts_are_not_warned_of_missing_launches(
    ttools: Run, script: str, command: str
) -> None:
    result = ttools(command, script, "fail")
    assert result.returncode == 3
    assert "launched" not in result.stdout + result.stderr
    assert result.stdout == ""
