"""Commands report the assertions that Triton leaves out."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

pytest.importorskip("torch", reason="torch is not installed")  # the script needs it

SCRIPT = """\
import sys
import torch
import triton
import triton.language as tl


@triton.jit
def checked(x):
    tl.device_assert(x > 0, "positive")
    return x


@triton.jit
def through_a_call(x_ptr):
    tl.store(x_ptr, checked(tl.load(x_ptr)))


@triton.jit
def as_python(x_ptr):
    x = tl.load(x_ptr)
    assert x > 0, "positive"
    tl.store(x_ptr, x)


@triton.jit
def asserts_nothing(x_ptr):
    tl.static_assert(1 > 0)
    tl.store(x_ptr, tl.load(x_ptr))


for kernel in (through_a_call, as_python, asserts_nothing):
    kernel[(1,)](torch.ones(1), debug="debug" in sys.argv)
    kernel[(1,)](torch.ones(1, dtype=torch.float64), debug="debug" in sys.argv)
"""


@pytest.mark.parametrize(
    "command",
    [
        ["interpret"],
        pytest.param(["interpret", "--engine", "eager"], marks=pytest.mark.slow),
        pytest.param(["sanitize"], marks=pytest.mark.slow),
    ],
)
def test_omitted_assertions_are_reported(ttools: Run, tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    result = ttools(*command, "script.py")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("note: assertions in") == 1
    assert f"`through_a_call` ({tmp_path}/script.py:9), `as_python`" in result.stderr
    assert (
        f"`as_python` ({tmp_path}/script.py:21) are not checked, because debug is off"
        in result.stderr
    )
    assert "asserts_nothing" not in result.stderr
    assert "debug=True" in result.stderr
    result = ttools(*command, "script.py", "debug")
    assert "assertions" not in result.stderr
