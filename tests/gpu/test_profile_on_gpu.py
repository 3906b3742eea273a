"""Profiles of kernels on a real GPU: Proton's times with counts, through API and command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from ttools.profiler import profile

pytestmark = pytest.mark.gpu


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    total = tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, total, mask=mask)


@triton.jit
def length_kernel(lengths_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, tl.load(lengths_ptr + row), BLOCK):
        total += tl.load(x_ptr + start + tl.arange(0, BLOCK))
    tl.store(out_ptr + row, tl.sum(total, 0))


def test_times_and_counts() -> None:
    n = 1 << 24
    x, y = torch.rand(n, device="cuda"), torch.rand(n, device="cuda")
    out = torch.empty_like(x)
    add_kernel[(n // 1024,)](x, y, out, n, BLOCK=1024)  # compiled before
    with profile() as prof:
        for _ in range(20):
            add_kernel[(n // 1024,)](x, y, out, n, BLOCK=1024)
        torch.matmul(x.view(4096, 4096), y.view(4096, 4096))
    assert torch.equal(out, x + y)
    assert prof.place == "the GPU"
    frame = prof.frame.set_index("kernel")
    row = frame.loc["add_kernel"]
    assert row["launches"] == 20
    assert (row["flops"], row["unique_bytes"]) == (n, 12 * n)
    # The bound must hold, and a plain addition comes near it.
    assert 0.3 < row["efficiency"] <= 1.05
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(20):
        add_kernel[(n // 1024,)](x, y, out, n, BLOCK=1024)
    end.record()
    torch.cuda.synchronize()
    assert row["median_s"] == pytest.approx(start.elapsed_time(end) / 20e3, rel=0.25)
    # Kernels of libraries are timed, and not counted.
    others = frame.drop("add_kernel")
    assert len(others) >= 1
    assert others["flops"].isna().all()


def test_what_depends_on_memory_is_an_estimate_the_second_time() -> None:
    lengths = torch.tensor([32, 64], dtype=torch.int32, device="cuda")
    x, out = torch.ones(64, device="cuda"), torch.empty(2, device="cuda")
    with profile(only=["length_kernel"]) as prof:
        for _ in range(3):
            length_kernel[(2,)](lengths, x, out, BLOCK=32)
    assert out.tolist() == [32.0, 64.0]
    assert [s.counts.exact for s in prof._session.samples if s.counts] == [True, False, False]
    assert prof.frame["bytes"][0] == 8 + 4 * (32 + 64) + 8


def test_without_counts_only_times() -> None:
    x = torch.rand(1000, device="cuda")
    with profile(counts=False) as prof:
        add_kernel[(1,)](x, x, torch.empty_like(x), 1000, BLOCK=1024)
    row = prof.frame.set_index("kernel").loc["add_kernel"]
    assert row["launches"] == 1
    assert row["median_s"] > 0
    assert "flops" not in row.dropna()


def test_command(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(
        "import torch, triton, triton.language as tl\n"
        "@triton.jit\n"
        "def scale_kernel(x_ptr, BLOCK: tl.constexpr):\n"
        "    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        "    tl.store(x_ptr + offs, tl.load(x_ptr + offs) * 2.0)\n"
        "x = torch.ones(4096, device='cuda')\n"
        "for _ in range(5): scale_kernel[(4,)](x, BLOCK=1024)\n"
        "print(float(x[0]))\n"
    )
    words = ["profile", "--format", "json", "--output", "p.json", "run.py"]
    done = subprocess.run(
        [sys.executable, "-m", "ttools_entry", *words],
        cwd=tmp_path,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "32.0\n"), done.stderr
    data = json.loads((tmp_path / "p.json").read_text())
    assert data["timed_on"] == "GPU"
    (kernel,) = [row for row in data["kernels"] if row["kernel"] == "scale_kernel"]
    assert (kernel["launches"], kernel["bytes"]) == (5, 32768)
    assert data["compiled"][0]["kernel"] == "scale_kernel"
