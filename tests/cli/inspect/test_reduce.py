"""`ttools inspect --reduce`: reports, scripts, and refusals."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.core.compilation.reduction import failing_kernels

_ODD = "*fp32:16,*fp32,*fp32,i32,fp32,96"
_VECTOR = "*fp32:16,*fp32:16,i32,128"
SCRIPT = """\
import torch
import triton
import triton.language as tl
from kernels import activation, odd_range


@triton.jit
def good_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), activation(tl.arange(0, BLOCK) * 1.0))


x = torch.zeros(128)
good_kernel[(1,)](x, BLOCK=128)
print("after the good kernel", flush=True)
odd_range[(1,)](x, x, x, 96, 1e-6, N=96)
"""


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.py"
    shutil.copyfile(failing_kernels.__file__, path)
    return path


def test_the_report_is_a_script(ttools: Run, kernels: Path) -> None:
    words = ["inspect", "--reduce", "--gpu", "h100", "--signature", _ODD]
    done = ttools(*words, "kernels.py:odd_range")
    assert done.returncode == 1, done.stderr
    ast.parse(done.stdout)
    comment = " ".join(line.strip("# ") for line in done.stdout.splitlines() if line[:1] == "#")
    assert "odd_range does not compile for sm_90: it fails with ValueError in" in comment
    assert "which is not a power of two" in comment
    assert "no smaller candidate fails in the same way" in comment
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_json_has_the_failure(ttools: Run, kernels: Path, tmp_path: Path) -> None:
    words = ["inspect", "--reduce", "--gpu", "sm_90", "--signature", _ODD, "--format", "json"]
    done = ttools(*words, "--output", "out.json", "kernels.py:odd_range")
    assert done.returncode == 1, done.stderr
    data = json.loads((tmp_path / "out.json").read_text())
    assert data["schema"] == "ttools.reduction/1"
    assert (data["failure"]["kind"], data["failure"]["stage"]) == ("error", "front end")
    assert data["lines"]["reduced"] <= 5
    assert "import ttools" not in data["script"]


def test_the_first_failing_kernel_of_a_script_is_reduced(
    ttools: Run, kernels: Path, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = ttools("inspect", "--reduce", "--gpu", "sm_90", "script.py")
    assert done.returncode == 1, done.stderr
    assert "def odd_range" in done.stdout
    assert "after the good kernel" in done.stderr
    assert "`odd_range` does not compile: the script ends here" in done.stderr


@pytest.mark.slow
def test_a_script_whose_kernels_compile(ttools: Run, kernels: Path, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.rpartition("odd_range[")[0])
    done = ttools("inspect", "--reduce", "--gpu", "sm_90", "script.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "the only compilation that launches need can be made for sm_90" in done.stderr


@pytest.mark.slow
def test_a_kernel_that_compiles(ttools: Run, kernels: Path) -> None:
    words = ["inspect", "--reduce", "--gpu", "sm_90", "--signature", _VECTOR]
    done = ttools(*words, "kernels.py:too_many_warps")
    assert (done.returncode, done.stdout) == (0, "")
    assert "compiles for sm_90: nothing to reduce" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--timeout", "3", "script.py"], "--timeout needs --reduce"),
        (["--reduce", "--stage", "ptx", "script.py"], "--stage cannot be combined with --reduce"),
        (["--reduce", "--lock", "a.lock", "script.py"], "--lock cannot be combined with --reduce"),
        (["--reduce", "--gpu", "a100", "script.py"], "--reduce compiles for one GPU"),
        (
            ["--reduce", "--format", "html", "script.py"],
            "the formats with --reduce are text and json",
        ),
        (["--reduce", "kernel.ttir"], "`kernel.ttir` has no Python source to reduce"),
        (["--reduce", "--signature", "i32", "script.py"], "--signature is for FILE.py:KERNEL"),
        (["--reduce", "--num-warps", "2", "script.py"], "are for FILE.py:KERNEL"),
    ],
)
def test_a_refusal_names_the_reason(
    called_ttools: Run, tmp_path: Path, words: list[str], message: str
) -> None:
    (tmp_path / "script.py").write_text("raise SystemExit(7)")
    done = called_ttools("inspect", "--gpu", "h100", *words)
    assert done.returncode == 2
    assert message in done.stderr
