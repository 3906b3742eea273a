"""Kernels that several tests of the backend plugin launch."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def fill_kernel(out_ptr, value, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.full([BLOCK], value, out_ptr.dtype.element_ty))


@triton.jit
def shift_kernel(x_ptr, n, BLOCK: tl.constexpr):
    """Move elements by one; the result is wrong if a load is moved past a store."""
    offsets = tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(x_ptr + offsets + 1, tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def tuple_kernel(pointers, numbers, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(pointers[0] + offsets) * numbers[0] + tl.load(pointers[1] + offsets) * numbers[1]
    tl.store(out_ptr + offsets, x)


@triton.jit
def descriptor_kernel(x_desc, out_desc, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    tile = x_desc.load([row, column])
    out_desc.store([row, column], tile * 2)
