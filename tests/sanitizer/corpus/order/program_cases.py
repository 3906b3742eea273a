"""Threads of one program access the same elements without a barrier, or lanes collide."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy


@triton.jit
def through_memory(x_ptr, s_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    r = tl.arange(0, B)
    x = tl.load(x_ptr + r[:, None] * B + r[None, :])
    tl.store(s_ptr + r[:, None] * B + r[None, :], x)  # BUG: intra_program_race
    if FIXED:
        tl.debug_barrier()
    y = tl.load(s_ptr + r[None, :] * B + r[:, None])  # BUG: intra_program_race
    tl.store(o_ptr + r[:, None] * B + r[None, :], y)


@buggy("intra_program_race", "s_ptr")
def transpose_through_scratch(fixed: bool) -> None:
    x, s, o = (torch.rand(32, 32) for _ in range(3))
    through_memory[(1,)](x, s, o, FIXED=fixed, B=32)


@triton.jit
def shifted(x_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i, i * 2.0)  # BUG: intra_program_race
    if FIXED:
        tl.debug_barrier()
    y = tl.load(x_ptr + i + 1, mask=i < B - 1, other=0.0)  # BUG: intra_program_race
    tl.store(o_ptr + i, y)


@buggy("intra_program_race", "x_ptr")
def neighbour_is_loaded_after_the_store(fixed: bool) -> None:
    shifted[(1,)](torch.zeros(256), torch.zeros(256), FIXED=fixed, B=256)


@triton.jit
def released(x_ptr, part_ptr, n_ptr, o_ptr, FIXED: tl.constexpr, N: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    tl.store(part_ptr + p * B + i, tl.load(x_ptr + p * B + i) * 2)  # BUG: intra_program_race
    if FIXED:
        tl.debug_barrier()
    if tl.atomic_add(n_ptr, 1) == N - 1:  # BUG: intra_program_race
        g = tl.arange(0, N)
        parts = tl.load(part_ptr + g[:, None] * B + i[None, :])  # BUG: intra_program_race
        tl.store(o_ptr + i, tl.sum(parts, 0))


@buggy("intra_program_race", "part_ptr")
def last_block_without_a_barrier(fixed: bool) -> None:
    n = torch.zeros(1, dtype=torch.int32)
    released[(4,)](torch.rand(512), torch.empty(512), n, torch.empty(128), FIXED=fixed, N=4, B=128)


@triton.jit
def iterated(x_ptr, steps, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    for _ in range(steps):
        left = tl.load(x_ptr + (i + B - 1) % B)  # BUG: intra_program_race
        if FIXED:
            tl.debug_barrier()
        tl.store(x_ptr + i, left * 0.5)  # BUG: intra_program_race
        if FIXED:
            tl.debug_barrier()


@buggy("intra_program_race", "x_ptr")
def rounds_of_a_ring(fixed: bool) -> None:
    iterated[(1,)](torch.rand(256), 3, FIXED=fixed, B=256)


@triton.jit
def grouped(x_ptr, key_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    key = tl.load(key_ptr + i)
    if FIXED:
        tl.atomic_add(o_ptr + key, tl.load(x_ptr + i))
    else:
        tl.store(o_ptr + key, tl.load(x_ptr + i))  # BUG: overlapping_store


@buggy("overlapping_store", "o_ptr")
def lanes_share_a_key(fixed: bool) -> None:
    key = torch.arange(32) % 5
    grouped[(1,)](torch.rand(32), key, torch.zeros(5), FIXED=fixed, B=32)


@triton.jit
def tile(x_ptr, o_ptr, sm, B: tl.constexpr):
    r = tl.arange(0, B)
    x = tl.load(x_ptr + r[:, None] * B + r[None, :])
    tl.store(o_ptr + r[:, None] * sm + r[None, :], x)  # BUG: overlapping_store


@buggy("overlapping_store", "o_ptr")
def rows_of_a_tile_overlap(fixed: bool) -> None:
    x = torch.arange(256.0)
    tile[(1,)](x, torch.zeros(256), 16 if fixed else 8, B=16)


@triton.jit
def counted(x_ptr, bins_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, B)
    tl.atomic_add(bins_ptr + tl.load(x_ptr + i), 1)  # BUG: intra_program_race
    if FIXED:
        tl.debug_barrier()
    n = tl.arange(0, N)
    tl.store(o_ptr + n, tl.cumsum(tl.load(bins_ptr + n), 0))  # BUG: intra_program_race


@buggy("intra_program_race", "bins_ptr")
def counts_are_read_too_soon(fixed: bool) -> None:
    x, bins = torch.arange(256) % 8, torch.zeros(8, dtype=torch.int32)
    counted[(1,)](x, bins, torch.empty(8, dtype=torch.int32), FIXED=fixed, B=256, N=8)


@triton.jit
def through_row(x_ptr, s_ptr, o_ptr, FIXED: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + r * N + c)
    tl.store(s_ptr + tl.arange(0, N), tl.sum(x, axis=0))
    if FIXED:
        tl.debug_barrier()
    tl.store(o_ptr + r * N + c, x / tl.load(s_ptr + c))  # BUG: intra_program_race


@buggy("intra_program_race", "s_ptr")
def row_is_loaded_again_to_be_broadcast(fixed: bool) -> None:
    x, s, o = torch.rand(16, 16), torch.empty(16), torch.empty(16, 16)
    through_row[(1,)](x, s, o, FIXED=fixed, N=16)
