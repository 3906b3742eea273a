"""A script whose kernel reads past the end of a tensor, and the expected text of its finding."""

from __future__ import annotations

BUGGY = """\
import sys
import torch
import triton
import triton.language as tl


@triton.jit
def add_one(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(out_ptr + offs, x + 1, mask=offs < n)


@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offs < n
    tl.store(x_ptr + offs, tl.load(x_ptr + offs, mask=inside) * 2, mask=inside)


n = 1000
x = torch.arange(n, dtype=torch.float32)
out = torch.full_like(x, -1)
if "double" in sys.argv:
    double[(triton.cdiv(n, 64),)](x, n, BLOCK=64)
else:
    add_one[(triton.cdiv(n, 64),)](x, out, n, BLOCK=64)
    print("right:", bool((out == x + 1).all()))
"""
FINDING = """\
buggy.py:10:9: error[oob_load]: out-of-bounds load of 4 bytes from `x_ptr`
   10 |     x = tl.load(x_ptr + offs)
      |         ^^^^^^^^^^^^^^^^^^^^^
"""
SUMMARY = "1 error in 1 kernel, 1 launch"
NO_LAUNCH = "no Triton kernel was launched, so nothing was checked"
