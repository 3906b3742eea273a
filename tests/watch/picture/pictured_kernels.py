"""Kernels for pictures of accesses."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def scale(out_ptr, x_ptr, n, steps, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    inside = offs < n
    x = tl.load(x_ptr + offs, mask=inside)
    for iteration in range(steps):
        x = x * 2 + iteration
    tl.store(out_ptr + offs, x, mask=inside)


@triton.jit
def transposed_copy(
    out_ptr, x_ptr, M, N, stride_m, stride_n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    rows = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tile = tl.load(x_ptr + rows[:, None] * stride_m + columns[None, :] * stride_n, mask=inside)
    tl.store(out_ptr + rows[:, None] * N + columns[None, :], tile, mask=inside)


@triton.jit
def histogram(counts_ptr, index_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + offs, mask=offs < n, other=0)
    tl.atomic_add(counts_ptr + index, 1, mask=offs < n)
