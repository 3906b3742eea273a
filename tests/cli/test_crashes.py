"""Kernels that kill the process when nobody checks them."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

WILD = """\
import torch, triton, triton.language as tl

@triton.jit
def wild_kernel(x_ptr):
    lanes = tl.arange(0, 16)
    tl.store(x_ptr + lanes.to(tl.int64) * 1000000000, 1.0)

@triton.jit
def tame_kernel(x_ptr):
    tl.store(x_ptr, 1.0)

x = torch.zeros(16)
tame_kernel[1,](x)
wild_kernel[1,](x)
tame_kernel[1,](x)
print("survived")
"""


def run(command: str, *options: str, script: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "ttools_entry", command, *options, str(script)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "wild.py").write_text(WILD)
    return tmp_path / "wild.py"


@pytest.mark.parametrize("command", ["interpret", "profile"])
def test_a_wild_access_names_the_kernel(command: str, script: Path) -> None:
    done = run(command, script=script)
    assert done.returncode == -signal.SIGSEGV
    assert re.search(
        "error: the process was killed by .* memory.*; the last kernel to start was `wild_kernel`",
        done.stderr,
    )
    assert "help: `ttools sanitize` finds accesses out of bounds" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_kernel_that_is_not_checked_is_named(script: Path) -> None:
    done = run("sanitize", "--only", "other", script=script)
    assert done.returncode == -signal.SIGSEGV
    assert "the last kernel to start was `wild_kernel`" in done.stderr
    assert "help: kernels that --only leaves out are not checked" in done.stderr


def test_the_sanitizer_survives_it(script: Path) -> None:
    done = run("sanitize", script=script)
    assert done.returncode == 1
    assert "survived" in done.stdout + done.stderr
    assert "error[memcheck]: out-of-bounds" in done.stdout


def test_a_record_survives_it(script: Path) -> None:
    record = script.with_name("wild.tt")
    done = run("record", "--output", str(record), script=script)
    assert done.returncode == 0
    assert "survived" in done.stdout
    assert f"accesses out of bounds were suppressed: `ttools sanitize {record}`" in " ".join(
        done.stderr.split()
    )
    again = run("sanitize", script=record)
    assert again.returncode == 1
    assert "out-of-bounds store" in again.stdout


def test_an_abort_without_kernels(tmp_path: Path) -> None:
    (tmp_path / "abort.py").write_text("import os; os.abort()")
    done = run("interpret", script=tmp_path / "abort.py")
    assert done.returncode == -signal.SIGABRT
    assert "a damaged heap, before any kernel ran" in done.stderr


def test_faulthandler_goes_first(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONFAULTHANDLER", "1")
    done = run("interpret", script=script)
    assert done.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in done.stderr
    assert "wild_kernel" not in done.stderr
