"""Kernels of many kinds, used to measure how well a model of GPU times generalises.

They complement those of `kernels.py` and `wider_kernels.py`, and are limited by different resources
of a GPU.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice

# Kernels have no annotations except `constexpr`: the types depend on the arguments of a launch.
# mypy: disable-error-code="no-untyped-def"

# ---- elements


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def strided_copy_kernel(x_ptr, out_ptr, n, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i * STRIDE, mask=i < n), mask=i < n)


@triton.jit
def cast_fp8_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n).to(tl.float8e4nv), mask=i < n)


@triton.jit
def gelu_tanh_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    inner = 0.7978845608 * (x + 0.044715 * x * x * x)
    tl.store(out_ptr + i, 0.5 * x * (1 + libdevice.tanh(inner)), mask=i < n)


@triton.jit
def gelu_erf_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, 0.5 * x * (1 + tl.erf(x * 0.70710678)), mask=i < n)


@triton.jit
def functions_kernel(x_ptr, out_ptr, n, TURNS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    for _ in range(TURNS):
        x = tl.exp(tl.sin(x)) + tl.log(x * x + 1.5)
    tl.store(out_ptr + i, x, mask=i < n)


@triton.jit
def polynomial_kernel(x_ptr, out_ptr, n, TURNS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    y = x
    for _ in range(TURNS):
        y = y * x + 0.25
    tl.store(out_ptr + i, y, mask=i < n)


@triton.jit
def double_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + i, mask=i < n), tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x * 1.5 + y, mask=i < n)


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, tl.where(tl.rand(seed, i) > p, x / (1 - p), 0.0), mask=i < n)


@triton.jit
def hash_kernel(x_ptr, out_ptr, n, TURNS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    for _ in range(TURNS):
        x = (x ^ (x >> 15)) * 739982445
        x = (x ^ (x << 7)) + 374761393
    tl.store(out_ptr + i, x, mask=i < n)


@triton.jit
def division_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    y = tl.load(y_ptr + i, mask=i < n, other=1)
    tl.store(out_ptr + i, x // y + x % y, mask=i < n)


@triton.jit
def adamw_kernel(p_ptr, g_ptr, m_ptr, v_ptr, n, rate, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    p, g = tl.load(p_ptr + i, mask=inside), tl.load(g_ptr + i, mask=inside)
    m = 0.9 * tl.load(m_ptr + i, mask=inside) + 0.1 * g
    v = 0.99 * tl.load(v_ptr + i, mask=inside) + 0.01 * g * g
    tl.store(m_ptr + i, m, mask=inside)
    tl.store(v_ptr + i, v, mask=inside)
    tl.store(p_ptr + i, p * (1 - rate) - rate * m / (tl.sqrt(v) + 1e-8), mask=inside)


@triton.jit
def mandelbrot_kernel(out_ptr, width, height, turns, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = (i % width) * (3.0 / width) - 2.0
    b = (i // width) * (2.0 / height) - 1.0
    x, y, count = a * 0, b * 0, a * 0
    turn = 0
    while turn < turns:
        inside = x * x + y * y < 4.0
        x, y = tl.where(inside, x * x - y * y + a, x), tl.where(inside, 2 * x * y + b, y)
        count += inside.to(tl.float32)
        turn += 1
    tl.store(out_ptr + i, count, mask=i < width * height)


@triton.jit
def stencil_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for k in tl.static_range(-3, 4):
        total += tl.load(x_ptr + i + k, mask=(i + k >= 0) & (i + k < n), other=0.0)
    tl.store(out_ptr + i, total / 7, mask=i < n)


@triton.jit
def stencil_2d_kernel(x_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    c = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    total = tl.zeros([BM, BN], tl.float32)
    for dr in tl.static_range(-1, 2):
        for dc in tl.static_range(-1, 2):
            y, x = r + dr, c + dc
            inside = (y >= 0) & (y < M) & (x >= 0) & (x < N)
            total += tl.load(x_ptr + y * N + x, mask=inside, other=0.0)
    tl.store(out_ptr + r * N + c, total, mask=(r < M) & (c < N))


@triton.jit
def depthwise_kernel(x_ptr, w_ptr, out_ptr, L, C, BL: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(0) * BL + tl.arange(0, BL)[:, None]
    c = tl.program_id(1) * BC + tl.arange(0, BC)[None, :]
    total = tl.zeros([BL, BC], tl.float32)
    for k in tl.static_range(4):
        w = tl.load(w_ptr + k * C + c, mask=c < C)
        total += w * tl.load(x_ptr + (r - k) * C + c, mask=(r >= k) & (r < L) & (c < C), other=0.0)
    tl.store(out_ptr + r * C + c, total * tl.sigmoid(total), mask=(r < L) & (c < C))


@triton.jit
def triangle_kernel(x_ptr, out_ptr, N, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    c = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    inside = (r < N) & (c < N)
    x = tl.load(x_ptr + r * N + c, mask=inside & (c <= r), other=-1e9)
    tl.store(out_ptr + r * N + c, x, mask=inside)


@triton.jit
def embedding_kernel(index_ptr, table_ptr, out_ptr, D, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.load(index_ptr + row)
    for start in range(0, D, BLOCK):
        c = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + row * D + c, tl.load(table_ptr + at * D + c, mask=c < D), mask=c < D)


@triton.jit
def dequantise_kernel(q_ptr, scale_ptr, out_ptr, n, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    packed = tl.load(q_ptr + i // 2, mask=i < n, other=0)
    value = ((packed >> (i % 2 * 4)) & 15).to(tl.float32) - 8
    tl.store(out_ptr + i, value * tl.load(scale_ptr + i // GROUP, mask=i < n), mask=i < n)


# ---- atomics


@triton.jit
def one_address_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0), axis=0), sem="relaxed")


@triton.jit
def counters_kernel(index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(index_ptr + i, mask=i < n, other=0)
    tl.atomic_add(out_ptr + at, tl.full([BLOCK], 1, tl.int32), mask=i < n, sem="relaxed")


@triton.jit
def segments_kernel(x_ptr, row_ptr, out_ptr, D: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.arange(0, D)[None, :]
    row = tl.load(row_ptr + i)[:, None]
    tl.atomic_add(out_ptr + row * D + c, tl.load(x_ptr + i[:, None] * D + c), sem="relaxed")


@triton.jit
def maximum_kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + c, mask=c < N, other=-float("inf"))
    tl.atomic_max(out_ptr + row, tl.max(x, axis=0), sem="relaxed")


# ---- rows


@triton.jit
def log_sum_exp_kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    high, total = -float("inf"), 0.0
    for start in range(0, N, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + c, mask=c < N, other=-float("inf"))
        higher = tl.maximum(high, tl.max(x, axis=0))
        total = total * tl.exp(high - higher) + tl.sum(tl.exp(x - higher), axis=0)
        high = higher
    tl.store(out_ptr + row, high + tl.log(total))


@triton.jit
def _join(mean_a, square_a, weight_a, mean_b, square_b, weight_b):
    weight = weight_a + weight_b
    share = tl.where(weight == 0.0, 0.0, weight_b / weight)
    delta = mean_b - mean_a
    return mean_a + delta * share, square_a + square_b + delta * delta * weight_a * share, weight


@triton.jit
def welford_kernel(x_ptr, mean_ptr, var_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + c, mask=c < N, other=0.0)
    zero, one = x * 0, tl.where(c < N, 1.0, 0.0)
    mean, square, weight = tl.reduce((x, zero, one), 0, _join)
    tl.store(mean_ptr + row, mean)
    tl.store(var_ptr + row, square / weight)


@triton.jit
def group_norm_kernel(x_ptr, w_ptr, out_ptr, N, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    group = tl.program_id(0)
    total, squares = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + group * N + c, mask=c < N, other=0.0)
        total += x
        squares += x * x
    mean = tl.sum(total) / N
    scale = tl.rsqrt(tl.sum(squares) / N - mean * mean + 1e-5)
    w = tl.load(w_ptr + group % GROUPS)
    for start in range(0, N, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + group * N + c, mask=c < N, other=0.0)
        tl.store(out_ptr + group * N + c, (x - mean) * scale * w, mask=c < N)


@triton.jit
def divergence_kernel(p_ptr, q_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        c = start + tl.arange(0, BLOCK)
        p = tl.load(p_ptr + row * N + c, mask=c < N, other=0.0).to(tl.float32)
        q = tl.load(q_ptr + row * N + c, mask=c < N, other=0.0).to(tl.float32)
        total += tl.exp(p) * (p - q)
    tl.store(out_ptr + row, tl.sum(total))


@triton.jit
def argmax_kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + c, mask=c < N, other=-float("inf"))
    tl.store(out_ptr + row, tl.argmax(x, axis=0))


@triton.jit
def top_k_kernel(x_ptr, out_ptr, N: tl.constexpr, K: tl.constexpr, ROWS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    x = tl.load(x_ptr + r * N + tl.arange(0, N)[None, :])
    tl.store(out_ptr + r * K + tl.arange(0, K)[None, :], tl.topk(x, K))


@triton.jit
def quantise_kernel(x_ptr, out_ptr, scale_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + c, mask=c < N, other=0.0).to(tl.float32)
    scale = tl.max(tl.abs(x), axis=0) / 127.0
    tl.store(scale_ptr + row, scale)
    tl.store(out_ptr + row * N + c, libdevice.rint(x / scale).to(tl.int8), mask=c < N)


@triton.jit
def running_sum_kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    before = 0.0
    for start in range(0, N, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + c, mask=c < N, other=0.0)
        tl.store(out_ptr + row * N + c, before + tl.cumsum(x, axis=0), mask=c < N)
        before += tl.sum(x, axis=0)


@triton.jit
def small_rows_kernel(x_ptr, out_ptr, M, N: tl.constexpr, ROWS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + r * N + c, mask=r < M, other=0.0)
    e = tl.exp(x - tl.max(x, axis=1)[:, None])
    tl.store(out_ptr + r * N + c, e / tl.sum(e, axis=1)[:, None], mask=r < M)


@triton.jit
def jagged_mean_kernel(x_ptr, offset_ptr, out_ptr, D: tl.constexpr, BLOCK: tl.constexpr):
    item = tl.program_id(0)
    first, last = tl.load(offset_ptr + item), tl.load(offset_ptr + item + 1)
    c = tl.arange(0, D)[None, :]
    total = tl.zeros([BLOCK, D], tl.float32)
    for start in range(first, last, BLOCK):
        r = start + tl.arange(0, BLOCK)[:, None]
        total += tl.load(x_ptr + r * D + c, mask=r < last, other=0.0)
    mean = tl.sum(total, axis=0) / tl.maximum(last - first, 1)
    tl.store(out_ptr + item * D + tl.arange(0, D), mean)


# ---- products


@triton.jit
def half_product_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros([BM, BN], tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + r[:, None] * K + k[None, :])
        b = tl.load(b_ptr + k[:, None] * N + c[None, :])
        total = tl.dot(a, b, total)
    out = total * tl.sigmoid(total)
    tl.store(c_ptr + r[:, None] * N + c[None, :], out.to(c_ptr.dtype.element_ty))


@triton.jit
def int8_weight_kernel(
    a_ptr, b_ptr, scale_ptr, c_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros([BM, BN], tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + r[:, None] * K + k[None, :])
        b = tl.load(b_ptr + k[:, None] * N + c[None, :]).to(tl.float16)
        total = tl.dot(a, b, total)
    out = total * tl.load(scale_ptr + c)[None, :]
    tl.store(c_ptr + r[:, None] * N + c[None, :], out.to(tl.float16))


@triton.jit
def fp8_product_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros([BM, BN], tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + r[:, None] * K + k[None, :])
        b = tl.load(b_ptr + c[None, :] * K + k[:, None])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + r[:, None] * N + c[None, :], total.to(tl.float16))


@triton.jit
def tf32_product_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros([BM, BN], tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + r[:, None] * K + k[None, :])
        b = tl.load(b_ptr + k[:, None] * N + c[None, :])
        total = tl.dot(a, b, total, input_precision="tf32")
    tl.store(c_ptr + r[:, None] * N + c[None, :], total)


@triton.jit
def gemv_kernel(a_ptr, x_ptr, out_ptr, M, K, BM: tl.constexpr, BK: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    total = tl.zeros([BM, BK], tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + r[:, None] * K + k[None, :], mask=r[:, None] < M, other=0.0)
        total += a.to(tl.float32) * tl.load(x_ptr + k)[None, :].to(tl.float32)
    tl.store(out_ptr + r, tl.sum(total, axis=1), mask=r < M)


@triton.jit
def distances_kernel(x_ptr, y_ptr, out_ptr, M, N, D, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros([BM, BN], tl.float32)
    for d in range(D):
        delta = tl.load(x_ptr + d * M + r)[:, None] - tl.load(y_ptr + d * N + c)[None, :]
        total += delta * delta
    tl.store(out_ptr + r[:, None] * N + c[None, :], tl.sqrt(total))


@triton.jit
def flash_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, scale, N,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1) * N * D
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + head + r[:, None] * D + d[None, :])
    high, total = tl.full([BM], -float("inf"), tl.float32), tl.zeros([BM], tl.float32)
    out = tl.zeros([BM, D], tl.float32)
    for start in range(0, N, BN):
        c = start + tl.arange(0, BN)
        k = tl.load(k_ptr + head + c[None, :] * D + d[:, None])
        s = tl.dot(q, k) * scale
        higher = tl.maximum(high, tl.max(s, axis=1))
        p = tl.exp2(s - higher[:, None])
        again = tl.exp2(high - higher)
        total = total * again + tl.sum(p, axis=1)
        v = tl.load(v_ptr + head + c[:, None] * D + d[None, :])
        out = tl.dot(p.to(tl.float16), v, out * again[:, None])
        high = higher
    out /= total[:, None]
    tl.store(o_ptr + head + r[:, None] * D + d[None, :], out.to(tl.float16))


@triton.jit
def decode_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, scale, N, D: tl.constexpr, BN: tl.constexpr
):  # fmt: skip
    head = tl.program_id(0)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + head * D + d).to(tl.float32) * scale
    high, total = -float("inf"), 0.0
    out = tl.zeros([D], tl.float32)
    for start in range(0, N, BN):
        c = start + tl.arange(0, BN)[:, None]
        at = head * N * D + c * D + d[None, :]
        s = tl.sum(tl.load(k_ptr + at).to(tl.float32) * q[None, :], axis=1)
        higher = tl.maximum(high, tl.max(s, axis=0))
        p = tl.exp(s - higher)
        again = tl.exp(high - higher)
        total = total * again + tl.sum(p, axis=0)
        out = out * again + tl.sum(p[:, None] * tl.load(v_ptr + at).to(tl.float32), axis=0)
        high = higher
    tl.store(o_ptr + head * D + d, (out / total).to(tl.float16))


@triton.jit
def implicit_convolution_kernel(
    x_ptr, w_ptr, out_ptr, H, W, C, N,
    BP: tl.constexpr, BO: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    y, x = p // W, p % W
    total = tl.zeros([BP, BO], tl.float32)
    for tap in range(9):
        dy, dx = y + tap // 3 - 1, x + tap % 3 - 1
        inside = (dy >= 0) & (dy < H) & (dx >= 0) & (dx < W)
        for start in range(0, C, BC):
            c = start + tl.arange(0, BC)
            at = (dy * W + dx)[:, None] * C + c[None, :]
            a = tl.load(x_ptr + at, mask=inside[:, None], other=0.0)
            b = tl.load(w_ptr + (tap * C + c)[:, None] * N + o[None, :])
            total = tl.dot(a, b, total)
    tl.store(out_ptr + p[:, None] * N + o[None, :], total.to(tl.float16))
