"""Accesses inside a storage, but outside of the view that was passed."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy


@triton.jit
def scaled(x_ptr, o_ptr, m, n, s, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    x = tl.load(x_ptr + r * s + c, mask=c < n, other=0.0)  # BUG: view_oob
    tl.store(o_ptr + r * n + c, 2 * x, mask=c < n)


@buggy("view_oob", "x_ptr")
def columns_are_taken_for_a_whole_tensor(fixed: bool) -> None:
    x = torch.rand(4, 24)[:, 8:16]
    scaled[(4,)](x, torch.empty(4, 8), 4, 8, x.stride(0) if fixed else 8, B=8)


@buggy("view_oob", "x_ptr")
def every_other_column_has_a_stride(fixed: bool) -> None:
    x = torch.rand(4, 16)[:, ::2]
    x = x.contiguous() if fixed else x
    scaled[(4,)](x, torch.empty(4, 8), 4, 8, x.stride(0), B=8)


@triton.jit
def copied(x_ptr, o_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n if FIXED else None)  # BUG: view_oob
    tl.store(o_ptr + i, x, mask=i < n)


@buggy("view_oob", "x_ptr")
def tail_reads_the_next_slice(fixed: bool) -> None:
    copied[(2,)](torch.rand(100)[:50], torch.empty(50), 50, FIXED=fixed, B=32)


@triton.jit
def filled(x_ptr, m, n, s, FIXED: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    tl.store(x_ptr + r * s + c, 1.0, mask=c < n if FIXED else c < s)  # BUG: view_oob


@buggy("view_oob", "x_ptr")
def padding_of_rows_is_overwritten(fixed: bool) -> None:
    x = torch.zeros(6, 16)[:, :13]
    filled[(6,)](x, 6, 13, 16, FIXED=fixed, B=16)


@triton.jit
def transposed(x_ptr, o_ptr, m, n, sm, sn, B: tl.constexpr):
    r = tl.arange(0, B)
    mask = (r[:, None] < m) & (r[None, :] < n)
    at = x_ptr + r[:, None] * sm + r[None, :] * sn
    x = tl.load(at, mask=mask)  # BUG: view_oob
    tl.store(o_ptr + r[:, None] * n + r[None, :], x, mask=mask)


@buggy("view_oob", "x_ptr")
def strides_of_a_transposed_slice_are_swapped(fixed: bool) -> None:
    x = torch.rand(16, 16)[:5, :12].T
    strides = x.stride() if fixed else x.stride()[::-1]
    transposed[(1,)](x, torch.empty(12, 5), 12, 5, *strides, B=16)


@triton.jit
def previous(x_ptr, o_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    mask = (i > 0) & (i < n) if FIXED else i < n
    before = tl.load(x_ptr + i - 1, mask=mask, other=0.0)  # BUG: view_oob
    tl.store(o_ptr + i, before, mask=i < n)


@buggy("view_oob", "x_ptr")
def element_before_a_slice(fixed: bool) -> None:
    previous[(1,)](torch.rand(60)[20:40], torch.empty(20), 20, FIXED=fixed, B=32)


@triton.jit
def appended(cache_ptr, new_ptr, position, s, D: tl.constexpr):
    head = tl.program_id(0)
    d = tl.arange(0, D)
    at = cache_ptr + head * s + position * D + d
    tl.store(at, tl.load(new_ptr + head * D + d))  # BUG: view_oob


@buggy("view_oob", "cache_ptr")
def cache_of_the_next_layer(fixed: bool) -> None:
    cache = torch.zeros(3, 2, 10, 16)  # layers, heads, positions
    layer = cache[1]
    appended[(2,)](layer, torch.rand(2, 16), 9 if fixed else 10, layer.stride(0), D=16)


@triton.jit
def broadcast_rows(x_ptr, b_ptr, s, sb, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    at = x_ptr + r * s + c
    tl.store(at, tl.load(at) + tl.load(b_ptr + r * sb + c))  # BUG: view_oob


@buggy("view_oob", "b_ptr")
def expanded_rows_are_taken_for_real_ones(fixed: bool) -> None:
    bias = torch.rand(8, 16)[2:3].expand(4, 16)
    stride = bias.stride(0) if fixed else 16
    broadcast_rows[(4,)](torch.rand(4, 16), bias, 16, stride, B=16)
