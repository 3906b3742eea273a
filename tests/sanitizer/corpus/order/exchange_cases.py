"""Loops in which threads exchange values and load values stored in earlier iterations."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy, clean

# mypy: disable-error-code="no-untyped-def"


@triton.jit
def turned(x_ptr, steps, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    for _ in range(steps):
        row = tl.load(x_ptr + B - 1 - i)  # BUG: intra_program_race
        tl.store(x_ptr + i, row / tl.max(row, 0))  # BUG: intra_program_race
        if FIXED:
            tl.debug_barrier()


@buggy("intra_program_race", "x_ptr")
def row_is_turned_around_in_each_step(fixed: bool) -> None:
    turned[(1,)](torch.rand(32) + 1, 4, FIXED=fixed, B=32)


@triton.jit
def scaled(a_ptr, n, steps, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)[:, None]
    j = tl.arange(0, B)[None, :]
    inside = (i < n) & (j < n)
    for _ in range(steps):
        a = tl.load(a_ptr + i * n + j, mask=inside, other=0.0)
        a = a / (tl.sum(a, 1)[:, None] + 1e-6)
        tl.store(a_ptr + i * n + j, a, mask=inside)  # BUG: intra_program_race
        if FIXED:
            tl.debug_barrier()
        b = tl.load(a_ptr + j * n + i, mask=inside, other=0.0)  # BUG: intra_program_race
        b = b / (tl.sum(b, 1)[:, None] + 1e-6)
        tl.store(a_ptr + j * n + i, b, mask=inside)  # BUG: intra_program_race
        if FIXED:
            tl.debug_barrier()


@buggy("intra_program_race", "a_ptr")
def rows_and_columns_are_scaled_in_turn(fixed: bool) -> None:
    scaled[(1,)](torch.rand(12, 12), 12, 3, FIXED=fixed, B=16)


@triton.jit
def after(x_ptr, s_ptr, steps, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    for t in range(steps):
        s = tl.load(s_ptr + (i + 1) % B)  # BUG: intra_program_race
        tl.debug_barrier()
        tl.store(s_ptr + i, s + 1)  # BUG: intra_program_race
        x = tl.load(x_ptr + t * B + i)
        tl.store(x_ptr + t * B + i, x / tl.sum(x, 0))
        if FIXED:
            tl.debug_barrier()


@buggy("intra_program_race", "s_ptr")
def a_sum_lies_between_the_turns(fixed: bool) -> None:
    after[(1,)](torch.rand(4, 32), torch.rand(32), 4, FIXED=fixed, B=32)


@triton.jit
def moved(x_ptr, s_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    s = tl.load(s_ptr + B - 1 - i)  # BUG: intra_program_race
    total = tl.sum(s if FIXED else tl.load(x_ptr + i), 0)
    if total > 0.5:
        tl.store(s_ptr + i, s)  # BUG: intra_program_race
    tl.store(o_ptr, total)


@buggy("intra_program_race", "s_ptr")
def a_sum_of_others_lies_between_load_and_store(fixed: bool) -> None:
    moved[(1,)](torch.rand(32), torch.rand(32), torch.empty(1), FIXED=fixed, B=32)


@triton.jit
def outer(x_ptr, s_ptr, steps, B: tl.constexpr):
    i = tl.arange(0, B)
    for t in range(steps):
        total = tl.sum(tl.load(x_ptr + t * B + i), 0)
        for k in range(2):
            s = tl.load(s_ptr + k * B + (i + t) % B)
            tl.debug_barrier()
            tl.store(s_ptr + k * B + i, s + total)


@clean
def a_sum_lies_between_the_loops() -> None:
    outer[(1,)](torch.rand(4, 32), torch.rand(2, 32), 4, B=32)


@triton.jit
def multiplied(a_ptr, c_ptr, steps, B: tl.constexpr):
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    for t in range(steps):
        a = tl.load(a_ptr + t * B * B + i * B + j)
        c = tl.load(c_ptr + i * B + j)
        tl.store(c_ptr + i * B + j, tl.dot(c, a, input_precision="ieee"))


@clean
def a_product_is_kept_in_memory() -> None:
    multiplied[(1,)](torch.rand(3, 16, 16), torch.rand(16, 16), 3, B=16)
