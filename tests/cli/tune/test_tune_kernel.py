"""`ttools tune FILE.py:KERNEL` and `FILE.py:FUNCTION`: spaces and inputs from files."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.cli.tune.told import problems

KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, SHIFT: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, x + SHIFT // 3, mask=offs < n)
"""
SPACE = """\
[parameters]
BLOCK = { powers_of_two = [64, 512] }
SHIFT = [0, 1, 9]
num_warps = [4]
[conditions]
few = "BLOCK >= 256 or SHIFT == 0"
"""
INPUTS = """\
import torch
import triton


def inputs():
    for n in (1000, 5000):
        x, out = torch.rand(n), torch.empty(n)
        yield {"x_ptr": x, "out_ptr": out, "n": n}, lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    for name, text in (("kernels.py", KERNEL), ("space.toml", SPACE), ("inputs.py", INPUTS)):
        (tmp_path / name).write_text(text)
    return ("tune", "kernels.py:add_kernel", "--space", "space.toml", "--inputs", "inputs.py")


@pytest.mark.slow
def test_a_kernel_over_a_space(ttools: Run, files: tuple[str, ...]) -> None:
    result = ttools(*files, "--format", "json", "--scratch", "nothing")
    small, large = problems(result)
    assert "warning: no tuned kernel has a parameter `nothing` (--scratch)\n" in result.stderr
    assert result.stderr.startswith(
        "note: space.toml: 8 of 12 combinations meet the conditions\nnote: add_kernel for n=1000"
    )
    assert (small["key"]["n"], large["key"]["n"]) == (1000, 5000)
    for problem in (small, large):
        status = {
            (t["config"]["BLOCK"], t["config"]["SHIFT"]): t["status"] for t in problem["trials"]
        }
        assert status == {
            (64, 0): "ok",
            (128, 0): "ok",
            **{(block, shift): "ok" for block in (256, 512) for shift in (0, 1)},
            **{(block, 9): "wrong" for block in (256, 512)},
        }


def test_no_winner_and_a_lock_file_that_cannot_be_written(
    ttools: Run, files: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    text = INPUTS.replace("torch.rand(n)", "torch.rand(9)").replace("(1000, 5000)", "(1000,)")
    (tmp_path / "inputs.py").write_text(text + "\n__import__('os').rmdir('folder')\n")
    options = ("--trials", "1", "--workers", "0", "--sanitize")
    result = ttools(*files, *options)
    assert result.returncode == 1, result.stderr
    assert "no configuration can win; the launch uses the first one" in result.stderr
    (tmp_path / "folder").mkdir()
    result = ttools(*files, *options, "--lock", "folder/lock.json")
    assert result.returncode == 2
    assert "error: cannot write the lock file `folder/lock.json`" in result.stderr
    assert "defect: memcheck" in result.stdout, "the report is written nevertheless"


def test_invalid_files(ttools: Run, files: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "space.toml").write_text(SPACE + 'none = "BLOCK > 512"\n')
    result = ttools(*files)
    assert result.returncode == 2
    assert result.stderr.endswith("meets the condition `none`: BLOCK > 512\n")
    (tmp_path / "space.toml").write_text(SPACE)
    (tmp_path / "inputs.py").write_text("def inputs(): 1 / 0\n")
    result = ttools(*files)
    assert result.returncode == 2
    assert "error: `inputs.py` fails: ZeroDivisionError" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["kernels.py:add_kernel"], "needs --inputs FILE.py"),
        (
            ["kernels.py:add_kernel", "--inputs", "inputs.py"],
            "has no autotuner, so it needs --space",
        ),
        (["--space", "space.toml", "-c", "pass"], "--space is for FILE.py:KERNEL"),
    ],
)
def test_a_kernel_needs_a_space_and_inputs(
    ttools: Run, files: tuple[str, ...], arguments: list[str], sentence: str
) -> None:
    result = ttools("tune", *arguments)
    assert result.returncode == 2
    assert sentence in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("effort", "tried", "sentence"),
    [
        ("quick", 16, "at most 16 of them"),
        ("default", 32, "at most 32 of them"),
        ("full", 40, "all of them"),
    ],
)
def test_levels_of_effort(
    ttools: Run, files: tuple[str, ...], tmp_path: Path, effort: str, tried: int, sentence: str
) -> None:
    space = "[parameters]\nBLOCK = { powers_of_two = [64, 512] }\nSHIFT = { range = [0, 9, 1] }\n"
    (tmp_path / "space.toml").write_text(space)
    text = INPUTS.replace("(1000, 5000)", "(1000,)")
    (tmp_path / "inputs.py").write_text(text)
    kernel = KERNEL.replace("x + SHIFT // 3", "tl.where(x > 2.0, x + SHIFT, x)")
    (tmp_path / "kernels.py").write_text(kernel)
    result = ttools(*files, "--effort", effort, "--format", "json")
    (problem,) = problems(result)
    plan = f"40 configurations, effort {effort}: {sentence}"
    assert f"note: add_kernel for n=1000, float32: {plan}\n" in result.stderr
    assert len(problem["trials"]) == problem["budget"] == problem["new_trials"] == tried
    assert (problem["effort"], problem["space"]) == (effort, 40)
    assert problem["complete"]
    result = ttools(*files, "--format", "json", "--trials", "3", "--effort", effort)
    (again,) = problems(result)
    assert (again["effort"], again["budget"], again["new_trials"]) == (None, 3, 0)
    assert again["winner"] == problem["winner"]


FUNCTION = """\
import torch
import triton
import triton.language as tl

DOMAIN = {"N": (0, 900), "dtype": ["float32", "float16"]}


def inputs(N, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.rand(N, generator=generator).to(getattr(torch, dtype))}


@triton.autotune([triton.Config({"BLOCK": block}) for block in (64, 256)], key=["n"])
@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * 2, mask=offs < n)


def double(x):
    out = torch.empty_like(x)
    double_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return out
"""


def test_a_function_on_the_inputs_of_a_verification(ttools: Run, tmp_path: Path) -> None:
    file = tmp_path / "double.py"
    file.write_text(FUNCTION)
    words = ("tune", "double.py:double", "--inputs", "double.py:inputs", "--workers", "0")
    result = ttools(*words, "--format", "json")
    tuned = problems(result)
    assert [problem["key"]["n"] for problem in tuned] == [900, 900]
    assert {trial["config"]["BLOCK"] for trial in tuned[0]["trials"]} == {64, 256}
    result = ttools(*words, "--space", "space.toml")
    assert (result.returncode, "Traceback" in result.stderr) == (2, False)
    file.write_text(FUNCTION + '\nTUNE = [{"K": 3}]\n')
    result = ttools(*words)
    assert result.returncode == 2
    assert "TUNE names `K`, which is not a parameter of inputs()" in result.stderr


def test_contradictory_levels_and_searches(called_ttools: Run) -> None:
    result = called_ttools("tune", "--effort", "quick", "--search", "exhaustive", "-c", "pass")
    assert result.returncode == 2
    assert result.stderr == (
        "error: effort quick tries 16 configurations, but search exhaustive tries all of them: "
        "omit one of the two options, or set the number of configurations with trials\n"
    )
    result = called_ttools("tune", "--effort", "fast", "-c", "pass")
    assert result.returncode == 2
    assert "'fast' is not one of 'quick', 'default', 'full'" in result.stderr
