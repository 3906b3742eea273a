"""Offsets that are computed in too few bits."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy


@triton.jit
def far_row(x_ptr, rows_ptr, o_ptr, stride, FIXED: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    row = tl.load(rows_ptr + p)
    c = tl.arange(0, B)
    if FIXED:
        at = row.to(tl.int64) * stride % 64
    else:
        at = row * stride + 0  # BUG: int_overflow
    tl.store(o_ptr + p * B + c, tl.load(x_ptr + at + c))


@buggy("int_overflow", "x_ptr")
def product_wraps_back_into_the_tensor(fixed: bool) -> None:
    # 65,536 rows of 65,536 columns: the product is 2**32, which is 0 in 32 bits.
    rows = torch.tensor([0, 65_536], dtype=torch.int32)
    far_row[(2,)](torch.rand(64), rows, torch.empty(2, 16), 65_536, FIXED=fixed, B=16)


@triton.jit
def of_programs(x_ptr, stride, FIXED: tl.constexpr):
    p = tl.program_id(0)
    if FIXED:
        p = p.to(tl.int64)
    at = p * stride  # BUG: int_overflow
    if at >= 0 and at < 8:
        tl.store(x_ptr + at, 1.0)


@buggy("int_overflow", "x_ptr", also=["overlapping_store"])
def program_times_stride(fixed: bool) -> None:
    of_programs[(5,)](torch.zeros(8), 2**30, FIXED=fixed)


@triton.jit
def bytes_of(x_ptr, index_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    index = tl.load(index_ptr + i)
    if FIXED:
        index = index.to(tl.int32)
    at = index * 4 + i % 4  # BUG: int_overflow
    tl.store(o_ptr + i, tl.load(x_ptr + at))  # BUG: oob_load


@buggy("int_overflow", "x_ptr", also=["oob_load"])
def index_of_eight_bits(fixed: bool) -> None:
    index = torch.arange(64).to(torch.int8)
    bytes_of[(1,)](torch.rand(256), index, torch.empty(64), FIXED=fixed, B=64)


@triton.jit
def walking(x_ptr, o_ptr, steps, stride, FIXED: tl.constexpr):
    at = stride * 0
    if FIXED:
        at = at.to(tl.int64)
    total = 0.0
    for _ in range(steps):
        keep = (at >= 0) & (at < 16)
        total += tl.load(x_ptr + at, mask=keep, other=0.0)
        at += stride  # BUG: int_overflow
    tl.store(o_ptr, total)


@buggy("int_overflow", "x_ptr")
def offset_that_grows_in_a_loop(fixed: bool) -> None:
    walking[(1,)](torch.rand(16), torch.empty(1), 6, 2**30, FIXED=fixed)


@triton.jit
def narrowed(x_ptr, o_ptr, start, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    at = (start + i.to(tl.int64)) * 4
    if FIXED:
        at = at % 64
    else:
        at = at.to(tl.int32)  # BUG: int_overflow
    tl.store(o_ptr + i, tl.load(x_ptr + at))


@buggy("int_overflow", "x_ptr")
def long_offset_is_made_short(fixed: bool) -> None:
    narrowed[(1,)](torch.rand(64), torch.empty(16), 2**30, FIXED=fixed, B=16)


@triton.jit
def batched(x_ptr, o_ptr, sb, sm, FIXED: tl.constexpr, B: tl.constexpr):
    b = tl.program_id(0)
    r = tl.arange(0, B)
    batch = b.to(tl.int64) if FIXED else b
    base = batch * sb  # BUG: int_overflow
    mask = (r < 4) & (b == 0) if FIXED else r < 4
    tl.store(o_ptr + b * 4 + r, tl.load(x_ptr + base + r * sm, mask=mask, other=0.0), mask=r < 4)


@buggy("int_overflow", "x_ptr", also=["oob_load"])
def stride_of_a_batch(fixed: bool) -> None:
    batched[(5,)](torch.rand(4), torch.empty(20), 2**30, 1, FIXED=fixed, B=8)


@triton.jit
def by_bytes(x_ptr, index_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    index = tl.load(index_ptr + i)
    if FIXED:
        index = index.to(tl.int32)
    at = index * 4  # BUG: int_overflow
    tl.store(o_ptr + i, tl.load(x_ptr + at))


@buggy("int_overflow", "x_ptr")
def index_of_unsigned_bytes(fixed: bool) -> None:
    index = (torch.arange(64) * 3).to(torch.uint8)
    by_bytes[(1,)](torch.rand(1024), index, torch.empty(64), FIXED=fixed, B=64)
