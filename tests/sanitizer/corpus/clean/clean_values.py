"""Correct computations that look like defects: integers that wrap, unused lanes, kept hints."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import clean


@triton.jit
def guarded(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    x = tl.where(i < n, tl.exp(x), 0.0)
    tl.store(o_ptr + i, x / tl.sum(x, 0), mask=i < n)


@clean
def garbage_is_selected_away() -> None:
    x, o = torch.rand(50), torch.empty(50)
    guarded[(1,)](x, o, 50, B=64)
    torch.testing.assert_close(o, torch.softmax(x, 0))


@triton.jit
def hashed(key_ptr, o_ptr, table_ptr, n, buckets, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    h = tl.load(key_ptr + i, mask=i < n, other=0)
    h = (h ^ (h >> 16)) * 0x45D9F3B
    h = (h ^ (h >> 16)) * 0x45D9F3B
    h = h ^ (h >> 16)
    slot = (h & 0x7FFFFFFF) % buckets
    tl.store(o_ptr + i, tl.load(table_ptr + slot), mask=i < n)


@clean
def hash_wraps_on_purpose() -> None:
    key = torch.randint(-(2**31), 2**31 - 1, (100,), dtype=torch.int32)
    hashed[(4,)](key, torch.empty(100), torch.rand(37), 100, 37, B=32)


@triton.jit
def congruential(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    state = i.to(tl.uint32) * 1664525 + 1013904223
    state = state * 1664525 + 1013904223
    pick = (state % n.to(tl.uint32)).to(tl.int32)
    tl.store(o_ptr + i, tl.load(x_ptr + pick))


@clean
def random_picks_of_an_unsigned_generator() -> None:
    congruential[(1,)](torch.rand(13), torch.empty(64), 13, B=64)


@triton.jit
def dropout(x_ptr, o_ptr, n, seed, p, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    keep = tl.rand(seed, i) > p
    tl.store(o_ptr + i, tl.where(keep, x / (1 - p), 0.0), mask=i < n)


@clean
def dropout_by_philox() -> None:
    dropout[(4,)](torch.rand(100), torch.empty(100), 100, 123, 0.3, B=32)


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, n, scale, B: tl.constexpr, D: tl.constexpr):
    start = tl.program_id(0) * B
    m = start + tl.arange(0, B)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :], mask=m[:, None] < n, other=0.0)
    top = tl.full((B,), float("-inf"), tl.float32)
    total = tl.zeros((B,), tl.float32)
    acc = tl.zeros((B, D), tl.float32)
    for first in range(0, start + B, B):
        j = first + tl.arange(0, B)
        k = tl.load(k_ptr + j[None, :] * D + d[:, None], mask=j[None, :] < n, other=0.0)
        s = tl.dot(q, k, input_precision="ieee") * scale
        s = tl.where((m[:, None] >= j[None, :]) & (j[None, :] < n), s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        shrink = tl.exp(top - new)
        v = tl.load(v_ptr + j[:, None] * D + d[None, :], mask=j[:, None] < n, other=0.0)
        acc = acc * shrink[:, None] + tl.dot(p, v, input_precision="ieee")
        total = total * shrink + tl.sum(p, 1)
        top = new
    tl.store(o_ptr + m[:, None] * D + d[None, :], acc / total[:, None], mask=m[:, None] < n)


@clean
def causal_attention() -> None:
    q, k, v = (torch.randn(40, 16) for _ in range(3))
    o = torch.empty(40, 16)
    attention[(3,)](q, k, v, o, 40, 0.25, B=16, D=16)
    expected = torch.nn.functional.scaled_dot_product_attention(
        q[None], k[None], v[None], is_causal=True
    )
    torch.testing.assert_close(o, expected[0], rtol=1e-4, atol=1e-4)


@triton.jit
def wrapping_rows(a_ptr, b_ptr, c_ptr, M, N, K, B: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)
    n = tl.program_id(1) * B + tl.arange(0, B)
    k = tl.arange(0, BK)
    a_at = a_ptr + (m % M)[:, None] * K + k[None, :]
    b_at = b_ptr + k[:, None] * N + (n % N)[None, :]
    acc = tl.zeros((B, B), tl.float32)
    for step in range(tl.cdiv(K, BK)):
        a = tl.load(a_at, mask=k[None, :] < K - step * BK, other=0.0)
        b = tl.load(b_at, mask=k[:, None] < K - step * BK, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_at += BK
        b_at += BK * N
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=mask)


@clean
def matmul_with_rows_that_wrap_around() -> None:
    a, b, c = torch.rand(20, 40), torch.rand(40, 24), torch.empty(20, 24)
    wrapping_rows[(2, 2)](a, b, c, 20, 24, 40, B=16, BK=16)
    torch.testing.assert_close(c, a @ b)


@triton.jit
def layer_norm(x_ptr, w_ptr, b_ptr, o_ptr, s, n, eps, B: tl.constexpr):
    r = tl.program_id(0)
    mean = 0.0
    total = tl.zeros((B,), tl.float32)
    for start in range(0, n, B):
        c = start + tl.arange(0, B)
        total += tl.load(x_ptr + r * s + c, mask=c < n, other=0.0)
    mean = tl.sum(total, 0) / n
    squares = tl.zeros((B,), tl.float32)
    for start in range(0, n, B):
        c = start + tl.arange(0, B)
        x = tl.load(x_ptr + r * s + c, mask=c < n, other=0.0)
        x = tl.where(c < n, x - mean, 0.0)
        squares += x * x
    scale = 1 / tl.sqrt(tl.sum(squares, 0) / n + eps)
    for start in range(0, n, B):
        c = start + tl.arange(0, B)
        w, b = tl.load(w_ptr + c, mask=c < n), tl.load(b_ptr + c, mask=c < n)
        x = tl.load(x_ptr + r * s + c, mask=c < n, other=0.0)
        tl.store(o_ptr + r * n + c, (x - mean) * scale * w + b, mask=c < n)


@clean
def layer_norm_of_a_slice() -> None:
    x, w, b, o = torch.rand(4, 80)[:, 10:60], torch.rand(50), torch.rand(50), torch.empty(4, 50)
    layer_norm[(4,)](x, w, b, o, x.stride(0), 50, 1e-5, B=32)
    expected = torch.nn.functional.layer_norm(x, (50,), w, b)
    torch.testing.assert_close(o, expected, rtol=1e-4, atol=1e-4)


@triton.jit
def ordered(x_ptr, o_ptr, n, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    x = tl.load(x_ptr + r * n + c, mask=c < n, other=float("inf"))
    tl.store(o_ptr + r * n + c, tl.sort(x), mask=c < n)


@clean
def sort_of_padded_rows() -> None:
    x, o = torch.rand(3, 27), torch.empty(3, 27)
    ordered[(3,)](x, o, 27, B=32)
    torch.testing.assert_close(o, x.sort(1).values)


@triton.jit
def scanned(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(o_ptr + i, tl.cumsum(x, 0), mask=i < n)


@clean
def scan_proceeds_away_from_the_garbage() -> None:
    x, o = torch.rand(60), torch.empty(60)
    x = torch.cat([x, torch.zeros(4)])
    scanned[(1,)](x, o.new_empty(64), 64, B=64)


@triton.jit
def far_in_masked_lanes(x_ptr, o_ptr, n, stride, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i * stride, mask=i < n, other=0.0)
    tl.store(o_ptr + i, x, mask=i < n)


@clean
def only_masked_lanes_wrap() -> None:
    far_in_masked_lanes[(1,)](torch.rand(4), torch.empty(1), 1, 2**30, B=16)


@triton.jit
def searched(x_ptr, key_ptr, o_ptr, n, keys, B: tl.constexpr):
    i = tl.arange(0, B)
    key = tl.load(key_ptr + i, mask=i < keys, other=0.0)
    low = tl.zeros((B,), tl.int32)
    high = tl.full((B,), 0, tl.int32) + n
    while tl.max(high - low, 0) > 0:
        middle = (low + high) // 2
        x = tl.load(x_ptr + middle, mask=low < high, other=0.0)
        right = (x < key) & (low < high)
        low = tl.where(right, middle + 1, low)
        high = tl.where(right, high, tl.minimum(middle, high))
    tl.store(o_ptr + i, low, mask=i < keys)


@clean
def binary_search() -> None:
    x, key = torch.rand(50).sort().values, torch.rand(20)
    o = torch.empty(20, dtype=torch.int32)
    searched[(1,)](x, key, o, 50, 20, B=32)
    assert torch.equal(o.long(), torch.searchsorted(x, key))


@triton.jit
def hinted(x_ptr, o_ptr, n, s, B: tl.constexpr):
    tl.assume(s >= B)
    r = tl.program_id(0)
    c = tl.max_contiguous(tl.multiple_of(tl.arange(0, B), B), B)
    row = tl.multiple_of(r * s, 8)
    x = tl.load(x_ptr + row + c, mask=c < n, other=0.0)
    tl.store(o_ptr + r * n + c, x, mask=c < n)


@clean
def hints_that_hold() -> None:
    hinted[(3,)](torch.rand(3, 40), torch.empty(3, 30), 30, 40, B=32)


@triton.jit
def clamped_hint(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    at = tl.where(i < n, i, 0)
    at = tl.max_contiguous(tl.multiple_of(at, B), B)
    tl.store(o_ptr + i, tl.load(x_ptr + at), mask=i < n)


@clean
def hint_is_false_only_for_unused_values() -> None:
    clamped_hint[(2,)](torch.rand(50), torch.empty(50), 50, B=32)


@triton.jit
def halves(x_ptr, o_ptr, scale_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    scale = tl.max(tl.abs(x), 0) / 127.0
    q = (x / scale + tl.where(x >= 0, 0.5, -0.5)).to(tl.int8)
    tl.store(o_ptr + i, q, mask=i < n)
    tl.store(scale_ptr, scale)


@clean
def quantised_to_bytes() -> None:
    x = torch.randn(50).to(torch.bfloat16)
    halves[(1,)](x, torch.empty(50, dtype=torch.int8), torch.empty(1), 50, B=64)


@triton.jit
def welford(mean_a, m2_a, count_a, mean_b, m2_b, count_b):
    count = count_a + count_b
    share = tl.where(count == 0.0, 0.0, count_b / count)
    delta = mean_b - mean_a
    return mean_a + delta * share, m2_a + m2_b + delta * delta * count_a * share, count


@triton.jit
def variance(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    ones = (i < n).to(tl.float32)
    _, m2, count = tl.reduce((x, tl.zeros_like(x), ones), 0, welford)
    tl.store(o_ptr, m2 / count)


@clean
def welford_with_empty_lanes() -> None:
    x, o = torch.rand(50), torch.empty(1)
    variance[(1,)](x, o, 50, B=64)
    torch.testing.assert_close(o[0], x.var(correction=0))
