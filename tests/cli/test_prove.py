"""`ttools prove` on functions and scripts at all sizes, and errors of its options."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.prove import kernels

Run = Callable[..., "subprocess.CompletedProcess[str]"]

_ALL_SIZES = """
import torch, triton
import triton.language as tl

@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)

x = torch.zeros(1000, dtype=torch.int8)
y = torch.empty_like(x)
copy_kernel[(triton.cdiv(1000, 256),)](x, y, 1000, BLOCK=256)
print("copied")
"""


def test_launches_of_a_script_are_checked_for_all_sizes(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(_ALL_SIZES)
    result = ttools("prove", "--script", "script.py")
    assert result.returncode == 1
    assert "copied" in result.stdout
    assert "at n = 2,147,483,649" in result.stdout
    assert "`copy_kernel`: failed at n = 2,147,483,649, the least failing size" in result.stdout
    assert "failed: 1 error; checked all sizes whose tensors fit in 80 GB" in result.stdout
    assert "-v lists 5 assumptions" in result.stdout
    assert "assumed: " not in result.stdout
    for verbose in (("-v", "prove"), ("prove", "--verbose")):
        long = ttools(*verbose, "--script", "script.py")
        assert "assumed: for `copy_kernel`: x_ptr.shape[0] = n" in long.stdout
    for smaller in (("--memory", "2GB"), ("--gpu", "t4")):  # t4: 16 GB
        limited = ttools("prove", "--script", *smaller, "script.py")
        assert limited.returncode == (0 if "2GB" in smaller else 1)
        assert f"fit in {'2 GB' if '2GB' in smaller else '16 GB'}" in limited.stdout
    words = ("--sizes", "n=1:2147483648")
    proved = ttools("prove", "--script", *words, "--require-proof", "script.py")
    assert (proved.returncode, "proved" in proved.stdout) == (0, True)
    old = ttools("sanitize", "--all-sizes", *words, "script.py")
    assert (old.returncode, old.stdout) == (0, proved.stdout)
    instead = "use `ttools prove --script --sizes n=1:2147483648 script.py`"
    assert instead in old.stderr
    refused = ttools("sanitize", "--all-sizes", "--poison", "script.py")
    assert refused.returncode == 2
    assert "--poison cannot be used with --all-sizes" in refused.stderr


_WILD = """
import torch, triton
import triton.language as tl

@triton.jit
def fill_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.program_id(0) * 100 + tl.arange(0, BLOCK), 1.0)

@triton.jit
def last_kernel(at_ptr, x_ptr):
    tl.store(x_ptr + tl.load(at_ptr), 1.0)

x = torch.zeros(8, 100)
fill_kernel[(8,)](x, BLOCK=1048576)
last_kernel[(1,)](torch.tensor(2**30), x)
print("still here")
"""


def test_wild_stores_of_the_script_are_reported_but_not_executed(
    ttools: Run, tmp_path: Path
) -> None:
    (tmp_path / "wild.py").write_text(_WILD)
    result = ttools("prove", "--script", "wild.py")
    assert result.returncode == 1, result.stderr
    assert "still here" in result.stdout
    assert "wild.py:7:5: error[oob_store]" in result.stdout
    assert "wild.py:11:5: error[oob_store]" in result.stdout  # reported by the run, not by a proof


def test_loaded_indices_are_proved_under_an_assumption(ttools: Run) -> None:
    gather = f"{kernels.__file__}:gather_random"
    unknown = ttools("prove", gather, "n=1:1000000")
    assert (unknown.returncode, "`gather_kernel`: unknown for" in unknown.stdout) == (0, True)
    assert "numbers loaded from a tensor determine" in " ".join(unknown.stdout.split())
    assert "not shown" not in unknown.stdout  # formulas only with -v
    required = ttools("prove", "--require-proof", gather, "n=1:1000000")
    assert (required.returncode, required.stdout) == (4, unknown.stdout)
    promise = ("--assume", "index_ptr=0:n-1")
    proved = ttools("prove", *promise, "--require-proof", gather, "n=1:1000000")
    assert (proved.returncode, ": proved" in proved.stdout) == (0, True)
    long = ttools("prove", "-v", *promise, gather, "n=1:1000000")
    assert "assumed: the numbers in `index_ptr` are from 0 to n-1" in long.stdout
    old = ttools("sanitize", "--sizes", "n=1:1000000", *promise, gather)
    assert (old.returncode, old.stdout) == (0, proved.stdout)
    quoted = shlex.quote(gather)
    assert f"use `ttools prove --assume index_ptr=0:n-1 {quoted} n=1:1000000`" in old.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("sanitize", "--assume", "a=0:1", "{}"), "--assume needs --sizes or --all-sizes"),
        (("prove", "--script", "--assume", "a=0:1", "{file}"), "no kernel that is"),
        (("prove", "--assume", "index_ptr=0:k", "{}", "n=1:9"), "k is not one of the sizes n"),
        (("prove",), "nothing to prove"),
        (("prove", "{}"), "no sizes given"),
        (("prove", "{}", "n=9:1"), "9 is above 1"),
        (("prove", "{}", "k=1:9"), "does not take an argument `k`"),
        (("prove", "{file}", "n=1:9"), "nothing to prove"),
        (("prove", "--sizes", "n=1:9", "{}"), "--sizes needs --script"),
        (("prove", "--device-map", "cuda=cpu", "{}", "n=1:9"), "--device-map needs --script"),
        (("prove", "--memory", "1GB", "{}", "n=1:9"), "--memory needs --script"),
        (("prove", "--script", "--memory", "big", "{file}"), "`big` is not an amount of memory"),
        (("prove", "--script", "--gpu", "h1000", "{file}"), "there is no GPU `h1000`"),
        (("prove", "--script", "--gpu", "h100", "--memory", "1GB", "{file}"), "either --memory or"),
        (("prove", "--script", "{}"), "--script takes a script"),
        (("prove", "--script", "no_such.py"), "no_such.py"),
    ],
)
def test_usage_errors(called_ttools: Run, words: tuple[str, ...], sentence: str) -> None:
    file = kernels.__file__
    refused = called_ttools(*(w.format(f"{file}:gather_random", file=file) for w in words))
    assert (refused.returncode, sentence in refused.stderr) == (2, True), refused.stderr
    assert "Traceback" not in refused.stderr


def test_assumptions_apply_to_the_launches_of_a_script(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(Path(kernels.__file__).read_text())
    (tmp_path / "gather.py").write_text("import kernels\nkernels.gather_random(1000)\n")
    words = ("prove", "-v", "--script", "--sizes", "n=1:1000000")
    proved = ttools(*words, "--assume", "index_ptr=0:n-1", "gather.py")
    assert (proved.returncode, ": proved" in proved.stdout) == (0, True), proved.stderr
    assert "the numbers in `index_ptr` are from 0 to n-1" in proved.stdout


_EXACT = """
import sys, torch, triton
import triton.language as tl

@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)

def length(x):
    n = x.shape[0]
    if type(n) is not int:
        raise ValueError("no integer")
    return n

x = torch.zeros(1000)
y = torch.empty_like(x)
copy_kernel[(triton.cdiv(length(x), 256),)](x, y, length(x), BLOCK=256)
print("copied")
sys.exit(int(sys.argv[1]))
"""


def test_a_script_that_requires_plain_integers_runs_without_tracing(
    ttools: Run, tmp_path: Path
) -> None:
    (tmp_path / "exact.py").write_text(_EXACT)
    result = ttools("prove", "-v", "--script", "exact.py", "0")
    assert "it runs once more, with plain integers" in result.stderr
    assert (result.returncode, ": proved" in result.stdout) == (0, True), result.stdout
    assert "assumed: integers were not traced" in result.stdout
    assert "grid[0] = cdiv(n, 256)" in result.stdout
    lenient = _EXACT.replace("type(n) is not int", "not isinstance(n, int)")
    (tmp_path / "lenient.py").write_text(lenient)
    result = ttools("prove", "-v", "--script", "lenient.py", "3")
    assert result.stdout.count("copied") == 1
    assert result.returncode == 3
    assert "as computed by the script: " in result.stdout


_FAILS = """
import sys, torch
import triton
import triton.language as tl

@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)

x = torch.zeros(1000)
if sys.argv[1] == "late":
    copy_kernel[(4,)](x, torch.empty_like(x), 1000, BLOCK=256)
if sys.argv[1] != "never":
    raise ValueError("no file `sizes`\\nin this folder")
"""


def test_a_script_that_fails_is_not_proved(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text(_FAILS)
    sizes = ("--sizes", "n=1:1000")
    early = ttools("prove", *sizes, "--script", "fails.py", "early")
    assert (early.returncode, early.stdout) == (1, "")
    assert early.stderr.endswith(
        "error: nothing was proved: the script failed with ValueError: no file `sizes`\n"
    )
    late = ttools("prove", *sizes, "--script", "fails.py", "late")
    assert late.returncode == 1
    assert "`copy_kernel`: proved for n = 1 to 1,000" in late.stdout
    reason = "launches that the script had not made when it failed with ValueError: no file `sizes`"
    assert reason in " ".join(late.stdout.split())
    assert "\nunknown: no finding; checked n = 1 to 1,000\n" in late.stdout


def test_a_script_without_launches_is_not_proved(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text(_FAILS)
    result = ttools("prove", "--require-proof", "--script", "fails.py", "never")
    assert result.returncode == 4
    assert "unknown: no launch with known sizes was recorded\n" in result.stdout
    assert ": proved" not in result.stdout
