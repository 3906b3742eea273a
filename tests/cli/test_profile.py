"""`ttools profile` as a user runs it, on a machine without a GPU."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest
from tests.cli.conftest import Run

SCRIPT = """\
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, n, factor, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(x_ptr + offs, x * factor, mask=offs < n)


x = torch.ones(1000)
for _ in range(3):
    scale_kernel[(4,)](x, 1000, 2.0, BLOCK=256)
print("right:", bool((x == 8).all()))
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "scale.py").write_text(SCRIPT)
    return "scale.py"


def test_text(ttools: Run, script: str) -> None:
    done = ttools("profile", "--lines", "--device", "h100", script, COLUMNS="160")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("right: True\n")
    assert "Kernels on the CPU" in done.stdout
    assert "At least, on h100" in done.stdout
    assert "a bound, no prediction" in done.stdout
    assert "Compiled for sm_90" in done.stdout
    (kernel,) = [line for line in done.stdout.splitlines() if "8 kB" in line and "100%" in line]
    assert "2.3%" in kernel
    (load,) = [line for line in done.stdout.splitlines() if "scale.py:9" in line]
    assert "12 kB" in load  # three launches


def test_json(ttools: Run, script: str, tmp_path: Path) -> None:
    done = ttools("profile", "--format", "json", "--output", "p.json", "--device", "a100", script)
    assert (done.returncode, done.stdout) == (0, "right: True\n")
    data = json.loads((tmp_path / "p.json").read_text())
    assert data["schema"] == "ttools.profile/1"
    assert data["script"] == {"target": "scale.py", "exit_code": 0}
    (kernel,) = data["kernels"]
    assert (kernel["launches"], kernel["bytes"], kernel["flops"]) == (3, 8000, 1024)
    assert kernel["bound_s"] == pytest.approx(8000 / 2039e9)
    assert [line["line"] for line in data["lines"]] == [9, 10]
    assert data["compiled"][0]["target"] == "sm_80"


def test_csv(ttools: Run, script: str) -> None:
    done = ttools("profile", "--format", "csv", "--lines", script)
    rows = list(csv.DictReader(StringIO(done.stdout.removeprefix("right: True\n"))))
    assert [(row["line"], row["loaded"], row["stored"]) for row in rows] == [
        *(("9", "12000", "0"), ("10", "0", "12000"))
    ]


def test_a_script_without_kernels(ttools: Run) -> None:
    done = ttools("profile", "-c", "print('hello')")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert "no Triton kernel was launched, so nothing was profiled" in done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--device", "h300", "scale.py"), "there is no device `h300` in the table"),
        (("gone.py",), "there is no file `gone.py`"),
        (("--output", "gone/p.txt", "scale.py"), "there is no folder `gone`"),
    ],
)
def test_wrong_use(ttools: Run, script: str, words: tuple[str, ...], sentence: str) -> None:
    done = ttools("profile", *words)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "right" not in done.stdout


def test_the_scripts_status_is_ours(ttools: Run) -> None:
    done = ttools("profile", "-c", "raise SystemExit(7)")
    assert done.returncode == 7
