"""Undefined values, overflows and false hints in kernels as libraries write them."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from catalogue import buggy


@triton.jit
def median(x_ptr, o_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    if FIXED:
        x = tl.load(x_ptr + tl.program_id(0) * n + i, mask=i < n, other=float("inf"))
    else:
        x = tl.load(x_ptr + tl.program_id(0) * n + i, mask=i < n)  # BUG: uninit_read
    s = tl.sort(x)
    tl.store(o_ptr + tl.program_id(0), tl.sum(tl.where(i == n // 2, s, 0.0)))


@buggy("uninit_read", "x_ptr")
def undefined_lanes_are_sorted(fixed: bool) -> None:
    median[(3,)](torch.rand(3, 11), torch.empty(3), 11, FIXED=fixed, B=16)


@triton.jit
def hist(x_ptr, o_ptr, n, FIXED: tl.constexpr, B: tl.constexpr, BINS: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)  # BUG: uninit_read
    if FIXED:
        h = tl.histogram(x, BINS, mask=i < n)
    else:
        h = tl.histogram(x, BINS)
    tl.store(o_ptr + tl.arange(0, BINS), h)


@buggy("uninit_read", "x_ptr")
def undefined_lanes_are_counted(fixed: bool) -> None:
    hist[(1,)](
        torch.randint(0, 8, (50,), dtype=torch.int32),
        torch.empty(8, dtype=torch.int32),
        50,
        FIXED=fixed,
        B=64,
        BINS=8,
    )


@triton.jit
def add_all(x_ptr, o_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    if FIXED:
        x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    else:
        x = tl.load(x_ptr + i, mask=i < n)  # BUG: uninit_read
    tl.atomic_add(o_ptr + i % 4, x)


@buggy("uninit_read", "x_ptr")
def undefined_lanes_are_added_atomically(fixed: bool) -> None:
    add_all[(1,)](torch.rand(10), torch.zeros(4), 10, FIXED=fixed, B=16)


@triton.jit
def fwd_lse(x_ptr, lse_ptr, len_ptr, o_ptr, D: tl.constexpr, FIXED: tl.constexpr):
    r = tl.program_id(0)
    n = tl.load(len_ptr + r)
    d = tl.arange(0, D)
    if n == 0:
        if FIXED:
            tl.store(lse_ptr + r, float("-inf"))
        tl.store(o_ptr + r * D + d, tl.zeros([D], tl.float32))
        return
    x = tl.load(x_ptr + r * D + d, mask=d < n, other=float("-inf"))
    m = tl.max(x)
    e = tl.exp(x - m)
    tl.store(lse_ptr + r, m + tl.log(tl.sum(e)))
    tl.store(o_ptr + r * D + d, e / tl.sum(e))


@triton.jit
def bwd_lse(g_ptr, x_ptr, lse_ptr, dx_ptr, D: tl.constexpr):
    r = tl.program_id(0)
    d = tl.arange(0, D)
    lse = tl.load(lse_ptr + r)  # BUG: uninit_read
    p = tl.exp(tl.load(x_ptr + r * D + d) - lse)
    tl.store(dx_ptr + r * D + d, p * tl.load(g_ptr + r * D + d))


@buggy("uninit_read", "lse_ptr")
def rows_without_keys_leave_no_lse(fixed: bool) -> None:
    class Attention(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            lse, o = torch.empty(x.shape[0]), torch.empty_like(x)
            fwd_lse[(x.shape[0],)](
                x, lse, torch.tensor([3, 0, 8], dtype=torch.int32), o, D=8, FIXED=fixed
            )
            ctx.save_for_backward(x, lse)
            return o

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            x, lse = ctx.saved_tensors
            dx = torch.empty_like(x)
            bwd_lse[(x.shape[0],)](g.contiguous(), x, lse, dx, D=8)
            return dx

    x = torch.rand(3, 8, requires_grad=True)
    Attention.apply(x).sum().backward()


@triton.jit
def embed(ids_ptr, w_ptr, o_ptr, D: tl.constexpr, FIXED: tl.constexpr):
    d = tl.arange(0, D)
    tok = tl.load(ids_ptr + tl.program_id(0))
    if FIXED:
        tok = tok.to(tl.int32)
    row = tok * D  # BUG: int_overflow
    tl.store(o_ptr + tl.program_id(0) * D + d, tl.load(w_ptr + row + d))  # BUG: oob_load


@buggy("int_overflow", "w_ptr", also=["oob_load"])
def tokens_of_sixteen_bits(fixed: bool) -> None:
    ids = torch.tensor([1, 511, 512, 999], dtype=torch.int16)
    embed[(4,)](ids, torch.zeros(1000, 64), torch.empty(4, 64), D=64, FIXED=fixed)


@triton.jit
def ragged(len_ptr, x_ptr, o_ptr, n, B: tl.constexpr, D: tl.constexpr, FIXED: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    length = tl.load(len_ptr + i, mask=i < r, other=0)
    if FIXED:
        start = tl.sum(length, 0)
    else:
        start = tl.sum(length, 0, dtype=tl.int8)  # BUG: int_overflow
    d = tl.arange(0, D)
    tl.store(o_ptr + r * D + d, tl.load(x_ptr + start + d))  # BUG: oob_load


@buggy("int_overflow", "x_ptr", also=["oob_load"])
def starts_are_summed_in_the_type_of_lengths(fixed: bool) -> None:
    ragged[(8,)](
        torch.full((8,), 40, dtype=torch.int8),
        torch.rand(320),
        torch.empty(8, 8),
        8,
        B=8,
        D=8,
        FIXED=fixed,
    )


@triton.jit
def row_ptr(p, row, stride, ALIGNED: tl.constexpr):
    if ALIGNED:
        stride = tl.multiple_of(stride, 16)  # BUG: bad_hint
    return p + row * stride


@triton.jit
def normalise(x_ptr, o_ptr, sx, n, ALIGNED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    p = row_ptr(x_ptr, tl.program_id(0), sx, ALIGNED)
    tl.store(o_ptr + tl.program_id(0) * n + i, tl.load(p + i, mask=i < n), mask=i < n)


@buggy("bad_hint", "sx")
def helper_promises_aligned_rows(fixed: bool) -> None:
    normalise[(3,)](torch.rand(3, 20), torch.empty(3, 20), 20, 20, ALIGNED=not fixed, B=32)
