"""`ttools tune check`: files alone, files and a kernel, files and a script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

SHAPE = "N=64,K={},device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8,block_shape=[128,128].json"
KERNEL = """\
import torch
import triton
import triton.language as tl


@triton.jit
def scaled_sum(x_ptr, s_ptr, out_ptr, M, N, K, GROUP, BLOCK_SIZE_K: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for k in range(0, K, BLOCK_SIZE_K):
        offs = k + tl.arange(0, BLOCK_SIZE_K)
        x = tl.load(x_ptr + row * K + offs, mask=offs < K, other=0.0)
        total += tl.sum(x) * tl.load(s_ptr + row * (K // GROUP) + k // GROUP)
    tl.store(out_ptr + row, total)


def inputs():
    for rows in (1, 2, 4, 8, 16, 32, 64):
        x, scales = torch.rand(rows, 2048), torch.rand(rows, 16)
        sizes = {"M": rows, "N": 64, "K": 2048, "GROUP": 128}
        yield {"x_ptr": x, "s_ptr": scales, "out_ptr": torch.empty(rows), **sizes}, (rows,)
"""
SCRIPT = """\
import os
import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, 2 * x if BLOCK < 512 else x, mask=offs < n)


os.path.exists("configs/E=8,N=16,device_name=CPU.json")
n = 1000
x, out = torch.rand(n), torch.empty(n)
double_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
"""


def write(path: Path, data: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(data, indent=4))


def entry(block: int, warps: int = 4) -> dict[str, int]:
    return {"BLOCK_SIZE_K": block, "num_warps": warps, "num_stages": 3}


def findings(output: str) -> list[tuple[str, str]]:
    data = json.loads(output)
    assert data["schema"] == "ttools.report/1"
    return [(found["kind"], found["message"]) for found in data["findings"]]


def test_files_without_a_program(called_ttools: Run, tmp_path: Path) -> None:
    write(tmp_path / "configs" / SHAPE.format(512), {"1": entry(64), "2": entry(64)})
    run = called_ttools("tune", "check", "configs")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == "no finding in 1 file with 2 configurations\n"
    write(tmp_path / "configs" / SHAPE.format(512), {"1": entry(64), "2": entry(64, warps=3)})
    run = called_ttools("tune", "check", "configs", COLUMNS="80")
    assert run.returncode == 1
    message = ".json:7: error[config_failed]: M=2: num_warps=3 is not a power of two"
    assert message in " ".join(run.stdout.split())
    assert run.stdout.endswith("1 error in 1 file with 1 configuration\n")


@pytest.mark.parametrize("form", ["sarif", "github", "junit", "markdown", "html"])
def test_formats(called_ttools: Run, tmp_path: Path, form: str) -> None:
    write(tmp_path / SHAPE.format(512), {"1": entry(64), "x": entry(64)})
    run = called_ttools("tune", "check", ".", "--format", form)
    assert run.returncode == 1
    assert "is not a number of rows" in run.stdout
    assert "kernel ``" not in run.stdout
    write(tmp_path / SHAPE.format(512), {"1": entry(64)})
    run = called_ttools("tune", "check", ".", "--format", form)
    assert run.returncode == 0


def test_severity_that_fails(called_ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "tune_configs.yaml").write_text("mm: [{META: {B: 1}}, {META: {B: 1}}]\n")
    assert called_ttools("tune", "check", "tune_configs.yaml").returncode == 1
    options = "--fail-on", "error"
    assert called_ttools("tune", "check", "tune_configs.yaml", *options).returncode == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give configuration files, or a folder"),
        (["none"], "there is no file or folder `none`"),
        (["."], "`.` contains no configuration file; known formats"),
        ([".", "--gpu", "h100"], "--gpu needs --program"),
        ([".", "--inputs", "k.py"], "--inputs needs --program"),
        ([SHAPE.format(1), "--program", "k.py:k"], "`k.py:k` needs --inputs FILE.py"),
        ([SHAPE.format(1), "--program", "k.py", "--inputs", "k.py"], "--inputs is for FILE.py"),
        ([SHAPE.format(1), "--program", "none.py"], "there is no file `none.py`"),
        ([SHAPE.format(1), "--program", "k.py", "--gpu", "h1000"], "there is no GPU `h1000`"),
    ],
)
def test_refusals(called_ttools: Run, tmp_path: Path, words: list[str], message: str) -> None:
    if words and words[0] == SHAPE.format(1):
        write(tmp_path / words[0], {"1": entry(64)})
    run = called_ttools("tune", "check", *words)
    assert run.returncode == 2
    assert message in run.stderr


def test_entries_are_tried_on_a_kernel(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL)
    blocks = {1: 32, 2: 64, 4: 128, 8: 256, 16: 48, 32: 16, 64: 512, 4096: 32}
    named = {str(rows): entry(block) for rows, block in blocks.items()}
    named["3"] = {**entry(64), "SPLIT_K": 2}
    write(tmp_path / "configs" / SHAPE.format(2048), named)
    options = "--program", "kernel.py:scaled_sum", "--inputs", "kernel.py", "--format", "json"
    run = ttools("tune", "check", "configs", *options)
    assert run.returncode == 1, run.stderr
    found = findings(run.stdout)
    assert sorted(kind for kind, _ in found) == [
        "config_failed",
        "config_unknown_parameter",
        "config_unused",
        "config_unused",
        "config_wrong",
        "config_wrong",
    ]
    by_entry = {message.partition(":")[0]: (kind, message) for kind, message in found}
    assert by_entry["M=8"][0] == by_entry["M=64"][0] == "config_wrong"
    assert by_entry["M=16"][0] == "config_failed"
    assert "has no parameter `SPLIT_K`" in str(found)
    assert by_entry["M=4096"] == (
        "config_unused",
        "M=4096: no launch of `kernel.py:scaled_sum` selects this entry",
    )


def test_entries_are_tried_on_the_launches_of_a_script(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    launch: dict[str, Any] = {"num_warps": 4, "num_ctas": 1, "num_stages": 3}
    for name, key in (("double_kernel", 1000), ("other_kernel", 1000)):
        rows = [
            [launch | {"kwargs": {"BLOCK": block}}, [time] * 3]
            for block, time in ((64, 0.3), (256, 0.2), (512, 0.1))
        ]
        data = {"key": [key, "torch.float32", "torch.float32"], "configs_timings": rows}
        (tmp_path / f"{name}.autotune.json").write_text(json.dumps(data))
    write(tmp_path / "E=4,N=16,device_name=CPU.json", {"1": entry(16)})
    options = ("--program", "script.py", "--workers", "0", "--format", "json")
    run = ttools("tune", "check", ".", *options)
    assert run.returncode == 1, run.stderr
    (unused_file, unused_kernel), (wrong,) = (
        [message for kind, message in findings(run.stdout) if kind == wanted]
        for wanted in ("config_unused", "config_wrong")
    )
    assert "did not look for `E=4,N=16,device_name=CPU.json`" in unused_file
    assert "launches no autotuned kernel `other_kernel`" in unused_kernel
    assert wrong.startswith("configuration 3: its outputs are wrong")
    assert "looks for `E=8,N=16,device_name=CPU.json`" in run.stderr


def test_entries_are_compiled_for_a_gpu(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(
        """\
import torch, triton, triton.language as tl

@triton.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    r, c = tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        a = tl.load(a_ptr + r[:, None] * K + k + c[None, :], mask=r[:, None] < M, other=0.0)
        b = tl.load(b_ptr + (k + r[:, None]) * N + c[None, :], mask=c[None, :] < N, other=0.0)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + r[:, None] * N + c[None, :], total, (r[:, None] < M) & (c[None, :] < N))

def inputs():
    a, b, c = torch.ones(16, 256), torch.ones(256, 16), torch.empty(16, 16)
    return {"a_ptr": a, "b_ptr": b, "c_ptr": c, "M": 16, "N": 16, "K": 256}, (1,)
"""
    )
    small = {"BLOCK": 16, "num_warps": 4, "num_stages": 2}
    large = {"BLOCK": 128, "num_warps": 8, "num_stages": 4}
    write(tmp_path / "N=16,K=256,device_name=NVIDIA_H100_80GB_HBM3.json", {"1": small, "16": large})
    write(tmp_path / "N=16,K=256,device_name=NVIDIA_H200.json", {"16": large})
    options = "--program", "kernel.py:product", "--inputs", "kernel.py", "--format", "json"
    run = ttools("tune", "check", ".", "--gpu", "h100", "--workers", "0", *options)
    assert run.returncode == 1, run.stderr
    over = [message for kind, message in findings(run.stdout) if kind == "config_over_limit"]
    assert len(over) == 1
    assert over[0].startswith("M=16: it cannot be launched on ")
    assert "shared memory" in over[0]
