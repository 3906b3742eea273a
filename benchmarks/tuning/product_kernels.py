"""More kernels that tuners are compared on: products, as inference and training have them.

Must not know who tunes them nor over which space.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Kernels have no annotations but constexpr: their parameters are what a launch makes of them.
# mypy: disable-error-code="no-untyped-def"


@triton.jit
def rms_int8_kernel(
    x_ptr, w_ptr, scale_ptr, out_ptr, M, N, K, eps,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Rows are normalised by their root mean square while they are multiplied by int8 weights."""
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_at = x_ptr + (m % M)[:, None] * K + k[None, :]
    w_at = w_ptr + (n % N)[None, :] * K + k[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    squares = tl.zeros((BLOCK_M,), tl.float32)
    for _ in range(0, K, BLOCK_K):
        x = tl.load(x_at)
        wide = x.to(tl.float32)
        squares += tl.sum(wide * wide, 1)
        total = tl.dot(x, tl.load(w_at).to(tl.float16), total)
        x_at += BLOCK_K
        w_at += BLOCK_K
    scale = tl.load(scale_ptr + n, mask=n < N, other=0.0)
    total = total * tl.rsqrt(squares / K + eps)[:, None] * scale[None, :]
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], total.to(tl.float16), mask=inside)


@triton.jit
def int4_kernel(
    x_ptr, w_ptr, scale_ptr, out_ptr, M, N, K,
    GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A product with weights of four bits, eight in a word along K, and a scale for each group."""
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    shift = (k % 8) * 4
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        at = start + k
        x = tl.load(x_ptr + m[:, None] * K + at[None, :], mask=m[:, None] < M, other=0.0)
        word = tl.load(w_ptr + (at // 8)[:, None] * N + (n % N)[None, :])
        scale = tl.load(scale_ptr + (start // GROUP) * N + n % N)
        four = ((word >> shift[:, None]) & 15) - 8
        total = tl.dot(x, (four.to(tl.float16) * scale[None, :]), total)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], total.to(tl.float16), mask=inside)


@triton.jit
def conv2d_kernel(
    x_ptr, w_ptr, out_ptr, batch, height, width, channels, filters,
    SIDE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A convolution of images, channels last, padded to their own size, as a product."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    image, pixel = m // (height * width), m % (height * width)
    y, x = pixel // width, pixel % width
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for tap in range(SIDE * SIDE):
        dy, dx = tap // SIDE - SIDE // 2, tap % SIDE - SIDE // 2
        there = (y + dy >= 0) & (y + dy < height) & (x + dx >= 0) & (x + dx < width)
        there &= image < batch
        row = ((image * height + y + dy) * width + x + dx) * channels
        for start in range(0, channels, BLOCK_K):
            c = start + tl.arange(0, BLOCK_K)
            a = tl.load(
                x_ptr + row[:, None] + c[None, :],
                mask=there[:, None] & (c[None, :] < channels),
                other=0.0,
            )
            b = tl.load(
                w_ptr + (tap * channels + c)[:, None] * filters + n[None, :],
                mask=(c[:, None] < channels) & (n[None, :] < filters),
                other=0.0,
            )
            total = tl.dot(a, b, total)
    inside = (image[:, None] < batch) & (n[None, :] < filters)
    tl.store(out_ptr + m[:, None] * filters + n[None, :], total.to(tl.float16), mask=inside)


@triton.jit
def batched_kernel(
    a_ptr, b_ptr, c_ptr, batch, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Products of the matrices of two stacks."""
    which = tl.program_id(1).to(tl.int64)
    columns = tl.cdiv(N, BLOCK_N)
    m = tl.program_id(0) // columns * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) % columns * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a = a_ptr + which * M * K + m[:, None] * K + k[None, :]
    b = b_ptr + which * K * N + k[:, None] * N + n[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        left = start + k < K
        total = tl.dot(
            tl.load(a, mask=(m[:, None] < M) & left[None, :], other=0.0),
            tl.load(b, mask=left[:, None] & (n[None, :] < N), other=0.0),
            total,
        )
        a += BLOCK_K
        b += BLOCK_K * N
    inside = (m[:, None] < M) & (n[None, :] < N)
    at = c_ptr + which * M * N + m[:, None] * N + n[None, :]
    tl.store(at, total.to(tl.bfloat16), mask=inside)


@triton.jit
def split_k_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """A product whose sums are shared by programs, which add up their parts."""
    columns = tl.cdiv(N, BLOCK_N)
    m = tl.program_id(0) // columns * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) % columns * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    a = a_ptr + (m % M)[:, None] * K + k[None, :]
    b = b_ptr + (n % N)[None, :] * K + k[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K * SPLIT):
        left = start + k < K
        total = tl.dot(
            tl.load(a, mask=left[None, :], other=0.0),
            tl.load(b, mask=left[:, None], other=0.0),
            total,
        )
        a += BLOCK_K * SPLIT
        b += BLOCK_K * SPLIT
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.atomic_add(c_ptr + m[:, None] * N + n[None, :], total, mask=inside, sem="relaxed")


@triton.jit
def experts_kernel(
    x_ptr, w_ptr, out_ptr, order_ptr, expert_ptr, tokens, N, K,
    ALIGNED: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Each expert's tokens, gathered by their order, times its weights.

    The order is padded with `tokens`, so that `ALIGNED` entries in a row are one expert's.
    """
    columns = tl.cdiv(N, BLOCK_N)
    first = tl.program_id(0) // columns * BLOCK_M
    n = tl.program_id(0) % columns * BLOCK_N + tl.arange(0, BLOCK_N)
    token = tl.load(order_ptr + first + tl.arange(0, BLOCK_M))
    expert = tl.load(expert_ptr + first // ALIGNED).to(tl.int64)
    k = tl.arange(0, BLOCK_K)
    there = token < tokens
    a = x_ptr + token.to(tl.int64)[:, None] * K + k[None, :]
    b = w_ptr + expert * N * K + (n % N)[None, :] * K + k[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, K, BLOCK_K):
        total = tl.dot(tl.load(a, mask=there[:, None], other=0.0), tl.load(b), total)
        a += BLOCK_K
        b += BLOCK_K
    at = out_ptr + token.to(tl.int64)[:, None] * N + n[None, :]
    tl.store(at, total.to(tl.float16), mask=there[:, None] & (n[None, :] < N))


@triton.jit
def decode_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, weight_ptr, length, scale,
    HEAD: tl.constexpr, QUERIES: tl.constexpr, BLOCK_N: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Attention of one token: `QUERIES` heads share keys, whose parts are summed up unscaled.

    Scores are bounded, so that parts need no common maximum.
    """
    base = tl.program_id(0).to(tl.int64) * length * HEAD
    lanes = tl.arange(0, HEAD)
    heads = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    q = tl.load(q_ptr + heads[:, None] * HEAD + lanes[None, :])
    part = tl.cdiv(tl.cdiv(length, PARTS), BLOCK_N) * BLOCK_N
    begin = tl.program_id(1) * part
    weight = tl.zeros((QUERIES,), tl.float32)
    total = tl.zeros((QUERIES, HEAD), tl.float32)
    for start in range(begin, min(begin + part, length), BLOCK_N):
        at = start + tl.arange(0, BLOCK_N)
        there = at < length
        k = tl.load(
            k_ptr + base + at[None, :] * HEAD + lanes[:, None], mask=there[None, :], other=0.0
        )
        p = tl.where(there[None, :], tl.exp2(tl.minimum(tl.dot(q, k) * scale, 14.0)), 0.0)
        weight += tl.sum(p, 1)
        v = tl.load(
            v_ptr + base + at[:, None] * HEAD + lanes[None, :], mask=there[:, None], other=0.0
        )
        total = tl.dot(p.to(tl.float16), v, total)
    tl.atomic_add(weight_ptr + heads, weight, sem="relaxed")
    tl.atomic_add(out_ptr + heads[:, None] * HEAD + lanes[None, :], total, sem="relaxed")
