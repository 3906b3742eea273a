"""`ttools inspect --lock` reports kernels that became more expensive, and the lines responsible."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run

KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    y = x * 2
    tl.store(out_ptr + offs, y, mask=offs < n)
"""
DEARER = KERNEL.replace("y = x * 2", "y = tl.sin(x) * tl.exp(x)")
NARROWER = KERNEL.replace("tl.load(x_ptr + offs,", "tl.load(x_ptr + offs + 1,")


def inspected(target: str = "sm_90") -> tuple[str, ...]:
    signature = "*fp32:16,*fp32:16,i32:16,1024"
    return ("inspect", "k.py:scale", "--signature", signature, "--gpu", target, "--lock", "l")


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_increases_are_reported_at_their_lines(ttools: Run, tmp_path: Path, target: str) -> None:
    file = tmp_path / "k.py"
    file.write_text(KERNEL)
    written = ttools(*inspected(target))
    assert (written.returncode, written.stdout) == (0, "")
    assert "l holds 1 compilation\n" in written.stderr
    (entry,) = json.loads((tmp_path / "l").read_text())["kernels"]
    assert entry["figures"]["registers"] > 0
    assert entry["figures"]["instructions"] == sum(entry["lines"].values()) > 10
    assert entry["lines"]["x = tl.load(x_ptr + offs, mask=offs < n)"] > 0

    # Lines that only move are recognised as the same lines.
    file.write_text("# one more\n" + KERNEL)
    same = ttools(*inspected(target), "--check")
    assert same.returncode == 0, same.stderr
    assert "1 of 1 compilations are within the limits" in same.stderr

    file.write_text("# one more\n" + DEARER)
    worse = ttools(*inspected(target), "--check")
    assert worse.returncode == 1
    assert "error: k.py:10: scale for " in worse.stderr
    assert "instructions " in worse.stderr

    if target == "gfx942":  # on this target wide accesses need no alignment to 16 bytes
        return
    file.write_text(NARROWER)
    narrow = ttools(*inspected(target), "--check")
    assert narrow.returncode == 1
    assert "narrow accesses 0 -> " in narrow.stderr
    assert "k.py:8: scale for " in narrow.stderr


@pytest.mark.slow
def test_limits_in_the_file_and_figures_that_are_not_compared(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(KERNEL)
    assert ttools(*inspected()).returncode == 0
    lock = json.loads((tmp_path / "l").read_text())
    lock["limits"] = {"instructions": 100.0}
    (tmp_path / "l").write_text(json.dumps(lock))
    (tmp_path / "k.py").write_text(DEARER)
    assert ttools(*inspected(), "--check").returncode == 0
    checked = ttools(*inspected("sm_80"), "--check")
    assert checked.returncode == 2
    assert "scale for sm_80 is not in l" in checked.stderr
    assert "l has no entries for these kernels" in checked.stderr
    # The limits are kept when the file is written again.
    assert ttools(*inspected("sm_80")).returncode == 0
    both = json.loads((tmp_path / "l").read_text())
    assert both["limits"] == {"instructions": 100.0}
    assert [entry["target"] for entry in both["kernels"]] == ["sm_80", "sm_90"]


SCRIPT = """\
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, x * 2, mask=offs < n)


@triton.jit
def gather(index_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    index = tl.load(index_ptr + lanes)
    tl.store(out_ptr + lanes, tl.load(x_ptr + index, mask=index > 0))


x, out = torch.zeros(40000), torch.empty(10000)
scale[(10,)](x, out, 10000, 3, BLOCK=1024)
gather[(1,)](torch.zeros(64, dtype=torch.int64), x, out, BLOCK=64)
"""


@pytest.mark.slow
def test_figures_of_launches_are_locked_too(ttools: Run, tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text(SCRIPT)
    words = ("inspect", "--gpu", "sm_90", "--lock", "l", "k.py")
    assert ttools(*words).returncode == 0
    gather, scale = json.loads((tmp_path / "l").read_text())["kernels"]
    assert scale["figures"]["bytes"] == scale["figures"]["unique bytes"] == 2 * 10000 * 4
    assert scale["figures"]["flops"] == 10 * 1024
    # Each of 32 threads loads four floats, which are in 16 sectors.
    assert 15 <= scale["figures"]["sectors per request"] <= 16
    assert scale["costs"]["bytes"]["x = tl.load(x_ptr + offs, mask=offs < n)"] == 40000
    assert "bytes" not in gather["figures"]  # the bytes depend on the addresses in memory
    assert gather["figures"]["projected time"] > 0  # the file allows an increase of this figure

    # With high limits for the figures of the machine code, only the figures of launches are
    # reported.
    lock = json.loads((tmp_path / "l").read_text())
    launch = ("bytes", "unique bytes", "flops", "sectors per request")
    lock["limits"] = dict.fromkeys(launch, 0.05)
    (tmp_path / "l").write_text(json.dumps(lock))
    again = ttools(*words[:-1], "--check", "k.py")
    assert again.returncode == 0, again.stderr
    worse = SCRIPT.replace("x_ptr + offs,", "x_ptr + offs * stride,").replace("x * 2", "x * 2 + x")
    file.write_text("# moved\n" + worse)
    check = ttools(*words[:-1], "--check", "k.py")
    assert check.returncode == 1
    assert "k.py:11: scale for sm_90: flops 10240 -> 20480" in check.stderr
    assert "k.py:10: scale for sm_90: sectors per request " in check.stderr
    assert "bytes" not in check.stderr
    both = "; tl.store(out_ptr + offs, x, mask=offs < n)"
    file.write_text(SCRIPT.replace("x * 2, mask=offs < n)", "x * 2, mask=offs < n)" + both))
    twice = ttools(*words[:-1], "--check", "k.py")
    assert "k.py:10: scale for sm_90: bytes 80000 -> 120000" in twice.stderr


PERSISTENT = """\
import torch
import triton
import triton.language as tl


@triton.jit
def add(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    for at in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        offs = at + tl.arange(0, BLOCK)
        tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) + 1, mask=offs < n)


x = torch.zeros(1 << 20, device="cuda")
programs = torch.cuda.get_device_properties("cuda").multi_processor_count
assert torch.cuda.get_device_capability() == (9, 0)
assert programs == 132
add[(programs,)](x, torch.empty_like(x), x.numel(), BLOCK=1024)
"""


@pytest.mark.slow
def test_another_block_size_is_compared_by_the_projected_time(ttools: Run, tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text(PERSISTENT)
    words = ("inspect", "--gpu", "sm_90", "--lock", "l")
    written = ttools(*words, "k.py")
    assert written.returncode == 0, written.stderr
    # One of 132 programs does all the work.
    file.write_text(PERSISTENT.replace("(programs,)", "(1,)").replace("=1024", "=512"))
    check = ttools(*words, "--check", "k.py")
    assert check.returncode == 1
    assert "add for sm_90: projected time " in check.stderr
    assert " us" in check.stderr


@pytest.mark.parametrize(
    ("lock", "arguments", "sentence"),
    [
        (None, ("--check", "k.py:scale"), "--check needs --lock FILE"),
        (None, (*inspected()[1:], "--check"), "there is no file `l`"),
        ("{}", (*inspected()[1:], "--check"), "l"),
        (
            '{"schema": "ttools.perf-lock/1", "limits": {"speed": 1.0}, "kernels": []}',
            (*inspected()[1:], "--check"),
            "names `speed`, which is not a figure",
        ),
    ],
)
def test_usage_errors(
    called_ttools: Run, tmp_path: Path, lock: str | None, arguments: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "k.py").write_text(KERNEL)
    if lock is not None:
        (tmp_path / "l").write_text(lock)
    result = called_ttools("inspect", *arguments)
    assert result.returncode == 2
    assert sentence in result.stderr
