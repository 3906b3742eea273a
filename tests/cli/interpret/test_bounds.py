"""Out-of-bounds accesses in `ttools interpret` and other commands that run kernels on the CPU."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.forked_python import PYTHON

#: The mask of the second half of a row compares with the wrong number, so that the last rows access
#: memory past the end of the tensor.
SCRIPT = """\
import torch, triton, triton.language as tl

@triton.autotune([triton.Config({"BLOCK": 64})], key=[])
@triton.jit
def halves_kernel(x_ptr, columns, BLOCK: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    half = x_ptr + row * columns + columns // 2
    x = tl.load(half + lanes, mask=lanes < columns)
    tl.store(half + lanes, 2 * x, mask=lanes < columns)

@triton.jit
def other():
    pass

x = torch.ones(16, 80)
for _ in range(3):
    halves_kernel[(16,)](x, 80)
print("survived", x[:, 40:].sum().item() > 0)
"""
COMMANDS = {
    "python": [],
    "interpret": ["-m", "ttools_entry", "interpret"],
    "two threads": ["-m", "ttools_entry", "interpret", "--threads", "2"],
    "watch": ["-m", "ttools_entry", "interpret", "--watch", "x", "--programs", "last"],
    "statistics": ["-m", "ttools_entry", "interpret", "--stats"],
    "profile": ["-m", "ttools_entry", "profile"],
    "tune": ["-m", "ttools_entry", "tune", "--trials", "1"],
    "unchecked": ["-m", "ttools_entry", "sanitize", "--only", "other"],
}


def run(words: list[str], tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "halves.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "TTOOLS_PROGRESS": "off", "TTOOLS_QUIET": "1", **variables}
    return PYTHON.run([*words, str(script)], env=environment, cwd=tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_line_is_reported_once(command: str, tmp_path: Path) -> None:
    result = run(COMMANDS[command], tmp_path)
    assert "survived True" in result.stdout + result.stderr
    assert result.returncode in (0, 1)
    assert "outside its tensors" not in result.stdout
    if command == "tune":
        return  # the command's worker processes report the accesses separately
    warnings = [line for line in result.stderr.splitlines() if "outside its tensors" in line]
    script = re.escape(str(tmp_path / "halves.py"))
    for line, text in zip((8, 9), warnings, strict=True):
        kind = "loads" if line == 8 else "stores"
        assert re.fullmatch(
            rf"ttools: warning: kernel `halves_kernel` at {script}:{line}: 24 {kind} outside its "
            rf"tensors were skipped in the first launch with such accesses; `ttools sanitize "
            rf"{script}` lists them",
            text,
        )


def test_unsafe_needs_native_code(tmp_path: Path) -> None:
    words = ["-m", "ttools_entry", "interpret", "--unsafe", "--engine", "eager"]
    result = run(words, tmp_path)
    assert result.returncode == 2
    assert "--unsafe needs native code" in result.stderr


def test_other_values_of_the_variable_are_refused(tmp_path: Path) -> None:
    result = run(COMMANDS["interpret"], tmp_path, TTOOLS_UNSAFE="maybe")
    assert result.returncode == 2
    assert "TTOOLS_UNSAFE is `maybe`, but must be `0` or `1`" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_eager_engine_refuses_the_accesses(tmp_path: Path) -> None:
    result = run([*COMMANDS["interpret"], "--engine", "eager"], tmp_path)
    assert result.returncode == 1
    assert "out-of-bounds load of 4 bytes" in result.stderr
