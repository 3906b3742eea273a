"""Loops that load values stored in earlier iterations, with and without barriers."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy, clean

# mypy: disable-error-code="no-untyped-def"


@triton.jit
def reshaped_scan(x_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    step = 1
    while step < n:
        left = tl.load(x_ptr + i - step, mask=i >= step, other=0.0)  # BUG: intra_program_race
        own = tl.load(x_ptr + i)
        if FIXED:
            tl.debug_barrier()
        tl.store(x_ptr + i, own + left)  # BUG: intra_program_race
        if FIXED:
            tl.debug_barrier()
        step *= 2


@buggy("intra_program_race", "x_ptr")
def prefix_sums_in_memory(fixed: bool) -> None:
    reshaped_scan[(1,)](torch.rand(64), 64, FIXED=fixed, B=64)


@triton.jit
def bitonic(x_ptr, FIXED: tl.constexpr, LOG: tl.constexpr):
    N: tl.constexpr = 1 << LOG
    i = tl.arange(0, N)
    for k in range(1, LOG + 1):
        for jj in range(k):
            j = 1 << (k - 1 - jj)
            partner = i ^ j
            a = tl.load(x_ptr + i)
            b = tl.load(x_ptr + partner)  # BUG: intra_program_race
            up = (i & (1 << k)) == 0
            low = i < partner
            keep = tl.where(up == low, tl.minimum(a, b), tl.maximum(a, b))
            if FIXED:
                tl.debug_barrier()
            tl.store(x_ptr + i, keep)  # BUG: intra_program_race
            if FIXED:
                tl.debug_barrier()


@buggy("intra_program_race", "x_ptr")
def a_network_sorts_in_memory(fixed: bool) -> None:
    bitonic[(1,)](torch.rand(32), FIXED=fixed, LOG=5)


@triton.jit
def swapped(x_ptr, turns, B: tl.constexpr):
    i = tl.arange(0, B)
    for turn in range(turns):
        x = tl.load(x_ptr + turn % 2 * B + (i + 1) % B)
        tl.store(x_ptr + (turn + 1) % 2 * B + i, x)
        tl.debug_barrier()


@clean
def double_buffers_take_turns() -> None:
    swapped[(1,)](torch.rand(2, 64), 4, B=64)


@triton.jit
def own_lanes(x_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    for _ in range(n):
        x = tl.load(x_ptr + i)
        tl.store(x_ptr + i, x * 2)
        y = tl.load(x_ptr + i)
        tl.store(x_ptr + i, y + 1)


@clean
def lanes_keep_to_their_elements() -> None:
    own_lanes[(1,)](torch.rand(64), 3, B=64)


@triton.jit
def tiles_2d(x_ptr, n, M: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    for k in range(n):
        x = tl.load(x_ptr + (k * M + r) * N + c)
        tl.store(x_ptr + ((k + 1) * M + r) * N + c, x + 1)


@clean
def a_tile_is_copied_on_from_turn_to_turn() -> None:
    tiles_2d[(1,)](torch.rand(5 * 8, 16), 4, M=8, N=16)


@triton.jit
def shrinking(x_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    while n > 1:
        half = n // 2
        a = tl.load(x_ptr + i, mask=i < half, other=0.0)
        b = tl.load(x_ptr + half + i, mask=i < half, other=0.0)
        tl.debug_barrier()
        tl.store(x_ptr + i, a + b, mask=i < half)
        tl.debug_barrier()
        n = half


@clean
def a_tree_of_sums_has_barriers() -> None:
    shrinking[(1,)](torch.rand(64), 64, B=32)


@triton.jit
def scalar_state(x_ptr, s_ptr, n, B: tl.constexpr):
    for k in range(n):
        s = tl.load(s_ptr)
        x = tl.load(x_ptr + k * B + tl.arange(0, B))
        tl.store(s_ptr, s + tl.sum(x, 0))


@clean
def a_scalar_is_kept_in_memory() -> None:
    scalar_state[(1,)](torch.rand(4, 32), torch.zeros(1), 4, B=32)


@triton.jit
def orthogonal(x_ptr, N: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    for n in range(N):
        row = tl.load(x_ptr + n * B + i)
        for m in range(n):
            other = tl.load(x_ptr + m * B + i)
            row -= other * tl.sum(row * other, 0)
        row /= tl.sqrt(tl.sum(row * row, 0))
        tl.store(x_ptr + n * B + i, row)


@clean
def rows_are_made_orthogonal_in_place() -> None:
    orthogonal[(1,)](torch.rand(4, 32), N=4, B=32)


@triton.jit
def turn_drawn_rows(x_ptr, o_ptr, next_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    row = tl.atomic_add(next_ptr, 1)
    while row < n:
        x = tl.load(x_ptr + row * B + i)
        tl.store(o_ptr + row * B + B - 1 - i, x)  # BUG: intra_program_race
        row = tl.atomic_add(next_ptr, 1)


@buggy("intra_program_race", "o_ptr")
def drawn_rows_are_turned_around_in_place(fixed: bool) -> None:
    x, drawn = torch.rand(4, 16), torch.zeros(1, dtype=torch.int32)
    turn_drawn_rows[(2,)](x, torch.zeros(4, 16) if fixed else x, drawn, 4, B=16)


@triton.jit
def move_under_lock(x_ptr, lock_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    x = tl.load(x_ptr + i)
    if FIXED:
        tl.debug_barrier()
    tl.store(x_ptr + 1 + i, x)  # BUG: intra_program_race
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@buggy("intra_program_race", "x_ptr")
def queue_is_moved_up_under_a_lock(fixed: bool) -> None:
    move_under_lock[(2,)](torch.rand(17), torch.zeros(1, dtype=torch.int32), FIXED=fixed, B=16)


@triton.jit
def add_windows(x_ptr, o_ptr, n, HOP: tl.constexpr, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    for frame in range(n):
        x = tl.load(x_ptr + frame * B + i)
        if FIXED:
            tl.debug_barrier()
        tl.store(o_ptr + frame * HOP + i, x)  # BUG: intra_program_race


@buggy(
    "intra_program_race",
    "o_ptr",
    missed="stores of one line in different iterations are not compared",
)
def windows_overlap_that_one_loop_stores(fixed: bool) -> None:
    add_windows[(1,)](torch.rand(4, 32), torch.zeros(80), 4, HOP=16, FIXED=fixed, B=32)
