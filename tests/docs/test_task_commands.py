"""The commands on pages about tasks and CI run on a user's kernel.

The kernel is correct, so that every command has to end with status 0 and without a traceback.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [*sorted((DOCS / "tasks").glob("*.md")), DOCS / "ci.md"]
#: A kernel as a reader may have it: for a GPU, autotuned, with a size as argument.
SCRIPT = """\
import sys, torch, triton, triton.language as tl

@triton.autotune([triton.Config({}, num_warps=1), triton.Config({}, num_warps=4)], key=["n"])
@triton.jit
def softmax_kernel(x_ptr, out_ptr, stride_row, stride, n, BLOCK: tl.constexpr):
    row, lanes = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_row + lanes * stride, mask=lanes < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * n + lanes, e / tl.sum(e, 0), mask=lanes < n)

def softmax(x):
    out = torch.empty(x.shape, device=x.device)
    m, n = x.shape
    softmax_kernel[(m,)](x, out, *x.stride(), n, BLOCK=triton.next_power_of_2(n))
    return out

def reference(x):
    return x.softmax(1)

DOMAIN, FINITE, CASES = {"M": (1, 3), "N": (1, 5)}, ["x"], 3

def inputs(M, N, seed):
    return {"x": torch.randn(M, N, generator=torch.Generator().manual_seed(seed))}

def run(M, N):
    softmax(torch.empty(M, N))

if __name__ == "__main__":
    n = int(sys.argv[1]) if sys.argv[1:] else 100
    x = torch.randn(4, n, device="cuda")
    print("off by", float((softmax(x) - reference(x)).abs().max()))
"""
TEST = """\
import torch
from script import reference, softmax

def test_softmax():
    x = torch.randn(3, 20, device="cuda")
    torch.testing.assert_close(softmax(x), reference(x))
"""
#: Commands that need something unavailable here: a GPU, a folder of candidates, the reader's file.
_ELSEWHERE = re.compile(r"--on gpu|candidates/|base\.json|--write-tests|\b(FILE|linear)\.py\b")


def commands(page: Path) -> list[str]:
    text = page.read_text("utf-8")
    lines = re.findall(r"^(?: {4}| {8})((?:\w+=\S+ )?(?:ttools|pytest) .+)$", text, re.M)
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S):
        lines += block.splitlines()
    return [line for line in lines if not _ELSEWHERE.search(line)]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in ("benchmarks", "tests", "tests/kernels"):
        (tmp_path / folder).mkdir()
    for script in ("script.py", "benchmarks/kernels.py"):
        (tmp_path / script).write_text(SCRIPT)
    (tmp_path / "tests" / "kernels" / "test_softmax.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=lambda page: page.stem)
def test_commands_of_a_page_work(page: Path, project: Path) -> None:
    for typed in commands(page):
        words = shlex.split(typed, comments=True)
        variables = dict(words.pop(0).split("=", 1) for _ in words[:1] if "=" in words[0])
        module = {"ttools": "ttools_entry", "pytest": "pytest"}[words[0]]
        result = subprocess.run(
            [sys.executable, "-m", module, *words[1:]],
            cwd=project, env={**os.environ, **variables},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        transcript = f"{typed}\n{result.stdout}{result.stderr}"
        # Times of two runs on a CPU may differ by chance.
        assert result.returncode == 0 or "profile compare" in typed, transcript
        assert "Traceback" not in result.stderr, transcript
