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


@triton.jit
def normed(x_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i)
    wide = x.to(tl.float32) if FIXED else x
    square = wide * wide  # BUG: inf
    mean = tl.sum(square.to(tl.float32), 0) / B
    tl.store(o_ptr + i, (x * tl.rsqrt(mean + 1e-6)).to(tl.float16))


@buggy("inf", "o_ptr", checks="default,numeric")
def a_norm_in_half_precision_is_zero(fixed: bool) -> None:
    x = torch.full((64,), 300.0, dtype=torch.float16)
    normed[(2,)](x, torch.empty_like(x), FIXED=fixed, B=32)


@triton.jit
def quantised(x_ptr, o_ptr, scale, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i) / scale
    if FIXED:
        x = tl.clamp(x, -128.9, 127.9)
    tl.store(o_ptr + i, x.to(tl.int8))  # BUG: int_overflow


@buggy("int_overflow", "o_ptr", checks="default,numeric")
def quantised_without_a_clamp(fixed: bool) -> None:
    x = torch.linspace(-4, 4, 64)
    quantised[(1,)](x, torch.empty(64, dtype=torch.int8), 0.03, FIXED=fixed, B=64)


@triton.jit
def squares(x_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, B))
    if FIXED:
        x = x.to(tl.int64)
    tl.store(o_ptr, tl.sum(x * x, 0))  # BUG: int_overflow


@buggy("int_overflow", "o_ptr", checks="default,numeric")
def a_sum_of_squares_wraps(fixed: bool) -> None:
    x = torch.full((64,), 60_000, dtype=torch.int32)
    squares[(1,)](x, torch.empty(1, dtype=torch.int64), FIXED=fixed, B=64)


@triton.jit
def counted(x_ptr, o_ptr, seed, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    if FIXED:
        total = x - 10
    else:
        total = x - 100  # BUG: int_overflow
    tl.store(o_ptr + i, total.to(tl.float32) * 0.5)
    hashed = i * 0x1E3779B1
    tl.store(o_ptr + B + i, (hashed ^ (hashed >> 15)) % 1000)
    random, other, _, _ = tl.randint4x(seed, i)
    tl.store(o_ptr + 2 * B + i, random.to(tl.float32) + other.to(tl.float32))


@buggy("int_overflow", "o_ptr", checks="default,numeric")
def a_byte_is_too_small_for_a_sum(fixed: bool) -> None:
    x = torch.full((32,), -100, dtype=torch.int8)
    counted[(1,)](x, torch.empty(96), 5, FIXED=fixed, B=32)


@triton.jit
def brightened(x_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    if FIXED:
        y = tl.minimum(x.to(tl.int32) + 100, 255).to(tl.uint8)
    else:
        y = x + 100  # BUG: int_overflow
    tl.store(o_ptr + i, y)


@buggy("int_overflow", "o_ptr", checks="numeric")
def unsigned_bytes_are_brightened(fixed: bool) -> None:
    x = torch.full((32,), 200, dtype=torch.uint8)
    brightened[(1,)](x, torch.empty_like(x), FIXED=fixed, B=32)


@triton.jit
def requantised(a_ptr, b_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    at = i[:, None] * B + i[None, :]
    c = tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at), out_dtype=tl.int32)
    high = c // 64
    if FIXED:
        high = tl.clamp(high.to(tl.float32), -128, 127).to(tl.int32)
    tl.store(o_ptr + at, high.to(tl.int8))  # BUG: int_overflow
    low = (c >> 4).to(tl.int8)  # packed
    tl.store(o_ptr + B * B + at, (c & 255).to(tl.uint8).to(tl.int8, bitcast=True) ^ low)


@buggy("int_overflow", "o_ptr", checks="default,numeric")
def a_product_of_bytes_is_cut_without_a_clamp(fixed: bool) -> None:
    a = torch.full((32, 32), 50, dtype=torch.int8)
    requantised[(1,)](a, a, torch.empty(2, 32, 32, dtype=torch.int8), FIXED=fixed, B=32)
