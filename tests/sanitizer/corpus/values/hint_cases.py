"""Hints that the data contradict."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy


@triton.jit
def of_rows(x_ptr, o_ptr, s, B: tl.constexpr):
    r = tl.program_id(0)
    row = r * s
    row = tl.multiple_of(row, 8)  # BUG: bad_hint
    c = tl.arange(0, B)
    tl.store(o_ptr + r * B + c, tl.load(x_ptr + row + c))


@buggy("bad_hint", "x_ptr")
def rows_are_not_aligned(fixed: bool) -> None:
    s = 24 if fixed else 20
    of_rows[(4,)](torch.rand(4, s), torch.empty(4, 16), s, B=16)


@triton.jit
def gathered(x_ptr, index_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.max_contiguous(tl.load(index_ptr + i), B)  # BUG: bad_hint
    tl.store(o_ptr + i, tl.load(x_ptr + at))


@buggy("bad_hint", "x_ptr")
def indices_are_not_contiguous(fixed: bool) -> None:
    index = torch.arange(16) + 5
    if not fixed:
        index[7] = 1
    gathered[(1,)](torch.rand(32), index, torch.empty(16), B=16)


@triton.jit
def in_groups(x_ptr, index_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.max_constancy(tl.load(index_ptr + i), 4)  # BUG: bad_hint
    tl.store(o_ptr + i, tl.load(x_ptr + at))


@buggy("bad_hint", "x_ptr")
def scales_are_not_shared_by_four(fixed: bool) -> None:
    index = torch.arange(16) // (4 if fixed else 2)
    in_groups[(1,)](torch.rand(8), index, torch.empty(16), B=16)


@triton.jit
def paged(x_ptr, page_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    page = tl.max_constancy(tl.load(page_ptr + i), 8)  # BUG: bad_hint
    tl.store(o_ptr + i, tl.load(x_ptr + page * 8 + i % 8))


@buggy("bad_hint", "x_ptr")
def pages_are_smaller_than_promised(fixed: bool) -> None:
    pages = torch.arange(32, dtype=torch.int32) // (8 if fixed else 4) % 4
    paged[(1,)](torch.rand(32), pages, torch.empty(32), B=32)


@triton.jit
def assumed(x_ptr, o_ptr, n, s, B: tl.constexpr):
    tl.assume(n % 2 == 0)  # BUG: bad_hint
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i * s, mask=i < n), mask=i < n)


@buggy("bad_hint", "n")
def an_odd_number_is_assumed_even(fixed: bool) -> None:
    n = 14 if fixed else 15
    assumed[(1,)](torch.rand(64), torch.empty(16), n, 3, B=16)


@triton.jit
def copy(x_ptr, o_ptr, n, B: tl.constexpr):  # BUG: bad_hint
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def wrapped(x_ptr, o_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    at = i % n
    if not FIXED:
        at = tl.max_contiguous(tl.multiple_of(at, B), B)  # BUG: bad_hint
    tl.store(o_ptr + i, tl.load(x_ptr + at))


@buggy("bad_hint", "x_ptr")
def rows_wrap_around_inside_a_tile(fixed: bool) -> None:
    wrapped[(2,)](torch.rand(24), torch.empty(32), 24, FIXED=fixed, B=16)


@triton.jit
def from_column(x_ptr, o_ptr, first, s, FIXED: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    start = x_ptr + r * s + first
    if not FIXED:
        start = tl.multiple_of(start, 16)  # BUG: bad_hint
    c = tl.arange(0, B)
    tl.store(o_ptr + r * B + c, tl.load(start + c))


@buggy("bad_hint", "x_ptr")
def pointer_is_not_aligned(fixed: bool) -> None:
    from_column[(2,)](torch.rand(2, 32), torch.empty(2, 16), 3, 32, FIXED=fixed, B=16)


@triton.jit
def stored(x_ptr, o_ptr, s, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    out = tl.multiple_of(p * s, 4) + i  # BUG: bad_hint
    tl.store(o_ptr + out, tl.load(x_ptr + p * B + i))


@buggy("bad_hint", "o_ptr")
def stores_are_not_aligned(fixed: bool) -> None:
    s = 16 if fixed else 17
    stored[(2,)](torch.rand(32), torch.zeros(40), s, B=16)


@buggy("bad_hint", "x_ptr")
def compiled_kernel_gets_another_tensor(fixed: bool) -> None:
    x, o = torch.rand(65), torch.empty(64)
    compiled = copy.warmup(x, o, 64, B=64, grid=(1,))
    compiled[(1, 1, 1)](x[:64] if fixed else x[1:], o, 64, 64)


@triton.jit
def of_parameters(x_ptr, o_ptr, s, B: tl.constexpr):
    s = tl.multiple_of(s, 16)  # BUG: bad_hint
    r = tl.program_id(0)
    c = tl.arange(0, B)
    tl.store(o_ptr + r * B + c, tl.load(x_ptr + r * s + c))


@buggy("bad_hint", "s")
def stride_is_no_multiple(fixed: bool) -> None:
    s = 32 if fixed else 35
    of_parameters[(3,)](torch.rand(3, s), torch.empty(3, 32), s, B=32)
