"""Commands end when their script does, and see the kernels of its exit functions."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run

ADD_ONE = """
import torch
import triton
import triton.language as tl

@triton.jit
def add_one(x, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + offsets, tl.load(x + offsets, mask=offsets < n) + 1, mask=offsets < n)

x = torch.zeros(100)
"""
LAST_STEPS = (
    ADD_ONE
    + """
import atexit
from concurrent.futures import ThreadPoolExecutor

executor = ThreadPoolExecutor(2)
for _ in range(4):
    executor.submit(add_one[(1,)], x, 100, BLOCK=128)

@atexit.register
def last():
    add_one[(1,)](x, 100, BLOCK=128)
    print(x.sum().item())
"""
)


def test_kernels_of_idle_executors_and_exit_functions(tmp_path: Path, started_ttools: Run) -> None:
    (tmp_path / "script.py").write_text(LAST_STEPS)
    result = started_ttools("sanitize", "script.py")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["500.0", "no finding in 1 kernel, 5 launches"]


UNSUPPORTED = """
import atexit
import torch
import triton
import triton.language as tl

@triton.jit
def unknown(x):
    tl.store(x, tl.inline_asm_elementwise("no.such $0, $1;", "=r,r", [3], tl.int32, True, 1))

atexit.register(print, "the last step")
unknown[(1,)](torch.zeros(1, dtype=torch.int32))
"""


@pytest.mark.parametrize("command", ["interpret", pytest.param("sanitize", marks=pytest.mark.slow)])
def test_unsupported_kernels_do_not_prevent_exit_functions(
    tmp_path: Path, started_ttools: Run, command: str
) -> None:
    (tmp_path / "script.py").write_text(UNSUPPORTED)
    result = started_ttools(command, "script.py")
    assert result.returncode == 3
    assert result.stdout.startswith("the last step\n")
    assert "script.py:9:" in result.stderr
    assert "unsupported" in result.stderr
    assert "Traceback" not in result.stderr


COLD_COMPILE = """
import torch
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    loader = DataLoader(TensorDataset(torch.arange(8.0)), num_workers=2, persistent_workers=True)
    rows = iter(loader)
    print(next(rows)[0].item())
    print(torch.compile(lambda x: torch.sin(x) * 2)(torch.zeros(4)).sum().item())
"""


@pytest.mark.slow
def test_workers_of_torch(tmp_path: Path, started_ttools: Run) -> None:
    """Run the workers of a data loader and those that Inductor starts when its cache is empty."""
    (tmp_path / "script.py").write_text(COLD_COMPILE)
    folder = str(tmp_path / "inductor")
    result = started_ttools("interpret", "script.py", TORCHINDUCTOR_CACHE_DIR=folder)
    assert (result.returncode, result.stdout.splitlines()) == (0, ["0.0", "0.0"]), result.stderr
