"""Cycles inside kernels on a real GPU, measured by Proton's instrumentation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.gpu

SCRIPT = """\
import torch
import triton
import triton.language as tl
import triton.profiler.language as pl


@triton.jit
def uneven_kernel(x_ptr, out_ptr, steps, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    with pl.scope("load"):
        x = tl.load(x_ptr + pid * BLOCK + offs)
    count = tl.where(pid == 5, steps * 20, steps)
    with pl.scope("loop"):
        for _ in range(count):
            x = tl.sin(x) + 1.0
    tl.store(out_ptr + pid * BLOCK + offs, x)


x = torch.rand(16 * 1024, device="cuda")
out = torch.empty_like(x)
for _ in range(2):
    uneven_kernel[(16,)](x, out, 50, BLOCK=1024, num_warps=4)
torch.cuda.synchronize()
expected = x.reshape(16, 1024)[0].clone()
for _ in range(50):
    expected = torch.sin(expected) + 1.0
assert torch.allclose(out[:1024], expected, atol=1e-3)
"""


def _profiled(folder: Path, inside: str) -> dict[str, Any]:
    script = folder / "uneven.py"
    script.write_text(SCRIPT)
    output = folder / "inside.json"
    words = ["profile", "--inside", inside, "--format", "json", "--output", str(output)]
    done = subprocess.run(
        [sys.executable, "-m", "ttools_entry", *words, str(script)],
        env={**os.environ, "TRITON_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kernels: list[dict[str, Any]] = json.loads(output.read_text())["kernels"]
    (kernel,) = kernels
    return kernel


def test_named_scopes_and_the_slow_program(tmp_path: Path) -> None:
    kernel = _profiled(tmp_path, "scopes")
    assert kernel["kernel"] == "uneven_kernel"
    assert (kernel["launches"], kernel["warps"]) == (2, 4)
    assert kernel["programs"]["count"] == 16
    assert kernel["programs"]["slowest"] == 5
    scopes = {scope["scope"]: scope for scope in kernel["scopes"]}
    assert set(scopes) == {"load", "loop"}
    assert scopes["loop"]["passes"] == 2 * 16 * 4
    assert scopes["loop"]["programs"]["slowest"] == 5
    # The loop of program 5 has 20 times as many iterations as those of the other 15 programs.
    programs = scopes["loop"]["programs"]
    assert programs["most"] > 5 * programs["least"] > 0


def test_lines(tmp_path: Path) -> None:
    kernel = _profiled(tmp_path, "lines")
    lines = SCRIPT.splitlines()
    loop = next(n for n, line in enumerate(lines, 1) if "for _ in range(count)" in line)
    names = [scope["scope"] for scope in kernel["scopes"]]
    assert f"line {loop}" in names
    assert any(name.startswith("line ") and name != f"line {loop}" for name in names)
