"""Kernels of which the tests make mutants."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def scaled(x, factor):
    return x * factor


@triton.jit
def elementwise_kernel(x_ptr, y_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    """Multiplies and adds."""
    program = tl.program_id(0)
    lanes = program * BLOCK + tl.arange(0, BLOCK)
    mask = lanes < n
    x = tl.load(x_ptr + lanes, mask=mask, other=0.0)
    y = tl.load(y_ptr + lanes, mask=mask, other=0.0)
    total = scaled(x, factor)
    total += y
    tl.store(out_ptr + lanes, total, mask=mask)


@triton.jit
def rows_kernel(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + columns
        total += tl.load(x_ptr + row * stride + at, mask=at < n, other=0.0)
    tl.store(out_ptr + row, tl.sum(total))


def launch() -> None:
    """Launches each kernel once."""
    torch.manual_seed(0)
    x, y, out = torch.randn(300), torch.randn(300), torch.zeros(300)
    elementwise_kernel[(5,)](x, y, out, 300, 1.7, BLOCK=64)
    rows = torch.randn(7, 45)
    rows_kernel[(7,)](rows, torch.zeros(7), 45, 45, BLOCK=16)
