"""Single elements of one or two bytes that were never written."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy


@triton.jit
def copied(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)  # BUG: unwritten_output


def _tail_left(dtype: torch.dtype, left: int) -> None:
    x = torch.randint(0, 100, (67,)).to(dtype)
    o = torch.empty_like(x)
    n = 67 - left
    copied[(triton.cdiv(n, 16),)](x, o, n, B=16)
    o.float().sum().item()


@buggy("unwritten_output", "o_ptr")
def a_tail_of_three_bytes_is_left(fixed: bool) -> None:
    _tail_left(torch.int8, 0 if fixed else 3)


@buggy("unwritten_output", "o_ptr")
def the_last_byte_of_an_fp8_output_is_left(fixed: bool) -> None:
    _tail_left(torch.float8_e4m3fn, 0 if fixed else 1)


@triton.jit
def row_sums(x_ptr, o_ptr, idle, N: tl.constexpr):
    row = tl.program_id(0)
    if row != idle:
        total = tl.sum(tl.load(x_ptr + row * N + tl.arange(0, N)))
        tl.store(o_ptr + row, total)  # BUG: unwritten_output


@buggy("unwritten_output", "o_ptr")
def one_row_has_no_statistic_in_half_precision(fixed: bool) -> None:
    o = torch.empty(9, dtype=torch.float16)
    row_sums[(9,)](torch.rand(9, 16), o, -1 if fixed else 3, N=16)
    o.tolist()


@buggy("unwritten_output", "o_ptr")
def one_row_has_no_count_of_sixteen_bits(fixed: bool) -> None:
    o = torch.empty(9, dtype=torch.int16)
    row_sums[(9,)](torch.ones(9, 16, dtype=torch.int16), o, -1 if fixed else 4, N=16)
    (o + 1).sum().item()


@triton.jit
def low_nibbles(x_ptr, o_ptr, B: tl.constexpr, BOTH: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + 2 * i, x & 15)  # BUG: unwritten_output
    if BOTH:
        tl.store(o_ptr + 2 * i + 1, x >> 4)


@buggy("unwritten_output", "o_ptr")
def only_low_nibbles_are_unpacked(fixed: bool) -> None:
    o = torch.empty(64, dtype=torch.uint8)
    low_nibbles[(1,)](torch.arange(32, dtype=torch.uint8) * 7, o, B=32, BOTH=fixed)
    o.sum().item()


@triton.jit
def total(x_ptr, o_ptr, s, B: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, B) * s)  # BUG: uninit_read
    tl.store(o_ptr, tl.sum(x.to(tl.float32)))


@buggy("uninit_read", "x_ptr", also=["unwritten_output"])
def a_statistic_of_two_bytes_is_read_by_the_next_kernel(fixed: bool) -> None:
    parts = torch.empty(8, dtype=torch.float16)
    row_sums[(8,)](torch.rand(8, 16), parts, -1 if fixed else 3, N=16)
    total[(1,)](parts, torch.empty(1), 1, B=8)


@buggy("uninit_read", "x_ptr", also=["unwritten_output"])
def a_count_of_one_byte_is_read_by_the_next_kernel(fixed: bool) -> None:
    parts = torch.empty(8, dtype=torch.int8)
    row_sums[(8,)](torch.ones(8, 4, dtype=torch.int8), parts, -1 if fixed else 3, N=4)
    total[(1,)](parts, torch.empty(1), 1, B=8)


@buggy("uninit_read", "x_ptr")
def the_host_leaves_one_element_of_two_bytes(fixed: bool) -> None:
    x = torch.empty(16, dtype=torch.float16)
    for k in range(16):
        if fixed or k != 5:
            x[k] = k
    total[(1,)](x, torch.empty(1), 1, B=16)
