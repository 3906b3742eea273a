"""Kernels and tests for runs of the pytest plugin, and functions that read the outcomes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

Pytest = Callable[..., "subprocess.CompletedProcess[str]"]

KERNELS = """\
import torch
import triton
import triton.language as tl


@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr, MASK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n if MASK else None)
    tl.store(out_ptr + offs, x, mask=offs < n)


def run(mask):
    x = torch.arange(100, dtype=torch.float32)
    out = torch.zeros(100)
    copy[(2,)](x, out, 100, BLOCK=64, MASK=mask)
    assert (out == x).all()
"""
BUGGY = "from kernels import run\n\ndef test_buggy():\n    run(mask=False)\n"
CLEAN = "from kernels import run\n\ndef test_clean():\n    run(mask=True)\n"
VIEW = """\
import torch
from kernels import copy

def test_view():
    copy[(2,)](torch.zeros(200)[:100], torch.zeros(100), 100, BLOCK=64, MASK=False)
"""
HEADLINE = "kernels.py:9:9: error[oob_load]: out-of-bounds load of 4 bytes from `x_ptr`"


def outcome(result: subprocess.CompletedProcess[str]) -> str:
    """Return the counts of the last line, such as `1 failed, 2 passed`."""
    return result.stdout.strip().splitlines()[-1].strip("= ").rpartition(" in ")[0]


def outcomes(result: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Return the outcome of each test that `-rA` lists."""
    pairs = re.findall(r"^([A-Z]+) \S+::(\w+)", result.stdout, re.MULTILINE)
    return {name: outcome for outcome, name in pairs}
