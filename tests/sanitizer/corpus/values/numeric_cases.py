"""NaN, infinities and divisions by zero."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy


@triton.jit
def softmax(x_ptr, o_ptr, n, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    x = tl.load(x_ptr + r * n + c, mask=c < n, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))  # BUG: nan
    tl.store(o_ptr + r * n + c, e / tl.sum(e, 0), mask=c < n)


@buggy("nan", "o_ptr", checks="all")
def a_row_is_masked_out(fixed: bool) -> None:
    x = torch.rand(3, 10)
    if not fixed:
        x[1] = float("-inf")
    softmax[(3,)](x, torch.empty(3, 10), 10, B=16)


@triton.jit
def exponentials(x_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    if FIXED:
        x = x - tl.max(x, 0)
    tl.store(o_ptr + i, tl.exp(x))  # BUG: inf


@buggy("inf", "o_ptr", checks="default,numeric")
def exponential_of_a_hundred(fixed: bool) -> None:
    exponentials[(1,)](torch.arange(128.0), torch.empty(128), FIXED=fixed, B=128)


@triton.jit
def mean(x_ptr, count_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    count = tl.load(count_ptr + p)
    x = tl.load(x_ptr + p * B + i, mask=i < count, other=0.0)
    if FIXED:
        count = tl.maximum(count, 1)
    tl.store(o_ptr + p, tl.sum(x, 0) / count)  # BUG: div_by_zero


@buggy("div_by_zero", "o_ptr", checks="numeric", also=["nan"])
def mean_of_nothing(fixed: bool) -> None:
    count = torch.tensor([4, 0, 16], dtype=torch.int32)
    mean[(3,)](torch.rand(3, 16), count, torch.empty(3), FIXED=fixed, B=16)


@triton.jit
def bucket(x_ptr, size_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    size = tl.load(size_ptr + i)
    if FIXED:
        size = tl.where(size == 0, 1, size)
    tl.store(o_ptr + i, tl.load(x_ptr + i) // size)  # BUG: div_by_zero


@buggy("div_by_zero", "o_ptr", checks="numeric")
def whole_division_by_zero(fixed: bool) -> None:
    size = torch.arange(16, dtype=torch.int32)
    x = torch.full((16,), 100, dtype=torch.int32)
    bucket[(1,)](x, size, torch.empty(16, dtype=torch.int32), FIXED=fixed, B=16)


@triton.jit
def deviation(x_ptr, o_ptr, B: tl.constexpr, FIXED: tl.constexpr):
    r = tl.program_id(0)
    x = tl.load(x_ptr + r * B + tl.arange(0, B))
    m = tl.sum(x, 0) / B
    variance = tl.sum((x - m) * (x - m), 0) / B if FIXED else tl.sum(x * x, 0) / B - m * m - 1e-5
    tl.store(o_ptr + r, tl.sqrt(variance))  # BUG: nan


@buggy("nan", "o_ptr", checks="numeric")
def variance_is_negative(fixed: bool) -> None:
    deviation[(2,)](torch.ones(2, 16) * 1000.0, torch.empty(2), FIXED=fixed, B=16)


@triton.jit
def halves(x_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    if FIXED:
        x = x.to(tl.float32)
    tl.store(o_ptr + i, (x * x).to(tl.float32))  # BUG: inf


@buggy("inf", "o_ptr", checks="numeric")
def squares_of_half_precision(fixed: bool) -> None:
    x = torch.full((16,), 300.0, dtype=torch.float16)
    halves[(1,)](x, torch.empty(16), FIXED=fixed, B=16)


@triton.jit
def difference(x_ptr, y_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.exp(tl.load(x_ptr + i))
    y = tl.load(y_ptr + i)
    if FIXED:
        x = tl.minimum(x, 1e30)
    d = x - y  # BUG: nan
    tl.store(o_ptr + i, d)


@buggy("nan", "o_ptr", checks="numeric")
def difference_of_infinities(fixed: bool) -> None:
    y = torch.full((16,), float("inf") if not fixed else 1.0)
    difference[(1,)](torch.full((16,), 100.0), y, torch.empty(16), FIXED=fixed, B=16)
