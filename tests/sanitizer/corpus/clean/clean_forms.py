"""Correct kernels of various forms: views, persistent programs, lanes that are replaced."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import clean


@triton.jit
def transposed(x_ptr, o_ptr, m, n, s0, s1, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    j = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    inside = (i < m) & (j < n)
    x = tl.load(x_ptr + i * s0 + j * s1, mask=inside, other=0.0)
    tl.store(o_ptr + i * n + j, x, mask=inside)


@clean
def views_of_all_kinds() -> None:
    x = torch.rand(50, 70)
    for view in (x.t(), x[5:, 3:], x[::2, ::3], x[:1].expand(50, 70), x.view(70, 50)):
        m, n = view.shape
        grid = (triton.cdiv(m, 16), triton.cdiv(n, 32))
        transposed[grid](view, torch.empty(m, n), m, n, *view.stride(), BM=16, BN=32)


@triton.jit
def swizzled(o_ptr, m, n, G: tl.constexpr, B: tl.constexpr):
    tiles_m, tiles_n = tl.cdiv(m, B), tl.cdiv(n, B)
    pid = tl.program_id(0)
    while pid < tiles_m * tiles_n:
        pm, pn = tl.swizzle2d(pid // tiles_n, pid % tiles_n, tiles_m, tiles_n, G)
        i, j = pm * B + tl.arange(0, B)[:, None], pn * B + tl.arange(0, B)[None, :]
        tl.store(o_ptr + i * n + j, pid * 1.0, mask=(i < m) & (j < n))
        pid += tl.num_programs(0)


@clean
def swizzled_tiles_of_persistent_programs() -> None:
    for m, n in ((100, 70), (64, 64), (33, 200)):
        swizzled[(3,)](torch.empty(m, n), m, n, G=2, B=16)


@triton.jit
def in_place(x_ptr, n, s, B: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    x = tl.load(x_ptr + row * s + c, mask=c < n, other=-float("inf"))
    tl.store(x_ptr + row * s + c, tl.softmax(x), mask=c < n)


@clean
def softmax_in_place_of_a_part() -> None:
    x = torch.rand(20, 96)
    in_place[(20,)](x[:, 8:72], 64, x.stride(0), B=64)
    in_place[(20,)](x[:, :50], 50, x.stride(0), B=64)


@triton.jit
def undefined_but_unused(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    x = tl.where(i < n, x * 2, 0.0)
    tl.store(o_ptr, tl.sum(x))
    y = tl.load(x_ptr + i, mask=i < n)
    tl.store(o_ptr + 3 + i, tl.exp(y), mask=i < n)
    z = tl.load(x_ptr + i, mask=i < n).to(tl.int32)
    tl.store(o_ptr + 1, tl.sum(z * (i < n).to(tl.int32)))
    tl.store(o_ptr + 2, tl.sum(z & -(i < n).to(tl.int32)))


@clean
def lanes_left_undefined_are_replaced() -> None:
    undefined_but_unused[(1,)](torch.rand(50), torch.empty(60)[:53], 50, B=64)


@triton.jit
def ping_pong(a_ptr, b_ptr, steps, n, B: tl.constexpr):
    i = tl.arange(0, B)
    for _ in range(steps):
        x = tl.load(a_ptr + i, mask=i < n, other=0.0)
        left = tl.load(a_ptr + i - 1, mask=(i > 0) & (i < n), other=0.0)
        tl.store(b_ptr + i, x + left, mask=i < n)
        tl.debug_barrier()
        y = tl.load(b_ptr + i, mask=i < n, other=0.0)
        tl.store(a_ptr + i, y, mask=i < n)
        tl.debug_barrier()


@clean
def buffers_alternate() -> None:
    ping_pong[(1,)](torch.rand(100), torch.empty(100), 5, 100, B=128)


@triton.jit
def grid3(x_ptr, o_ptr, h, t, d, sb, sh, st, B: tl.constexpr, D: tl.constexpr):
    b, hh, tt = tl.program_id(2), tl.program_id(1), tl.program_id(0)
    i = tt * B + tl.arange(0, B)[:, None]
    j = tl.arange(0, D)[None, :]
    ok = (i < t) & (j < d)
    at = b.to(tl.int64) * sb + hh * sh + i * st + j
    tl.store(
        o_ptr + ((b * h + hh) * t + i) * d + j, tl.load(x_ptr + at, mask=ok, other=0.0), mask=ok
    )


@clean
def heads_of_a_fused_projection() -> None:
    qkv = torch.rand(2, 37, 3, 4, 24)
    for n in range(3):
        q = qkv[:, :, n]
        o = torch.empty(2, 4, 37, 24)
        grid3[(3, 4, 2)](q, o, 4, 37, 24, q.stride(0), q.stride(2), q.stride(1), B=16, D=32)


@triton.jit
def interleave(x_ptr, y_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x, y = tl.load(x_ptr + i, mask=i < n, other=0.0), tl.load(y_ptr + i, mask=i < n, other=0.0)
    both = tl.interleave(x, y)
    j = tl.program_id(0) * 2 * B + tl.arange(0, 2 * B)
    tl.store(o_ptr + j, both, mask=j < 2 * n)


@clean
def two_rows_are_interleaved() -> None:
    interleave[(3,)](torch.rand(150), torch.rand(150), torch.empty(300), 150, B=64)
