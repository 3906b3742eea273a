"""The kernels that tuners are compared on, written as one writes them for a GPU.

Must not know who tunes them nor over which space.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Kernels have no annotations but constexpr: their parameters are what a launch makes of them.
# mypy: disable-error-code="no-untyped-def"


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    group = pid // (GROUP_M * columns)
    height = min(rows - group * GROUP_M, GROUP_M)
    pid_m = group * GROUP_M + (pid % (GROUP_M * columns)) % height
    pid_n = (pid % (GROUP_M * columns)) // height
    m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    n = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    k = tl.arange(0, BLOCK_K)
    a = a_ptr + m[:, None] * K + k[None, :]
    b = b_ptr + n[None, :] * K + k[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        left = start + k < K
        total = tl.dot(
            tl.load(a, mask=left[None, :], other=0.0),
            tl.load(b, mask=left[:, None], other=0.0),
            total,
        )
        a += BLOCK_K
        b += BLOCK_K
    m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total.to(tl.float16), mask=inside)


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, length, scale,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    base = tl.program_id(1).to(tl.int64) * length * HEAD
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    lanes = tl.arange(0, HEAD)
    columns = tl.arange(0, BLOCK_N)
    inside = rows[:, None] < length
    at = base + rows[:, None] * HEAD + lanes[None, :]
    q = tl.load(q_ptr + at, mask=inside, other=0.0)
    most = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    weight = tl.zeros((BLOCK_M,), tl.float32)
    total = tl.zeros((BLOCK_M, HEAD), tl.float32)
    for start in range(0, length, BLOCK_N):
        there = start + columns < length
        k = tl.load(
            k_ptr + base + (start + columns)[None, :] * HEAD + lanes[:, None],
            mask=there[None, :],
            other=0.0,
        )
        scores = tl.where(there[None, :], tl.dot(q, k) * scale, float("-inf"))
        new = tl.maximum(most, tl.max(scores, 1))
        p = tl.exp2(scores - new[:, None])
        fade = tl.exp2(most - new)
        weight = weight * fade + tl.sum(p, 1)
        v = tl.load(
            v_ptr + base + (start + columns)[:, None] * HEAD + lanes[None, :],
            mask=there[:, None],
            other=0.0,
        )
        total = tl.dot(p.to(tl.float16), v, total * fade[:, None])
        most = new
    tl.store(out_ptr + at, (total / weight[:, None]).to(tl.float16), mask=inside)


@triton.jit
def layer_norm_kernel(
    x_ptr, w_ptr, out_ptr, rows, columns, eps, BLOCK: tl.constexpr, ROWS: tl.constexpr
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lanes = tl.arange(0, BLOCK)
    start = row[:, None].to(tl.int64) * columns
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    squares = tl.zeros((ROWS, BLOCK), tl.float32)
    for offset in range(0, columns, BLOCK):
        at = offset + lanes[None, :]
        inside = (row[:, None] < rows) & (at < columns)
        x = tl.load(x_ptr + start + at, mask=inside, other=0.0).to(tl.float32)
        total += x
        squares += x * x
    mean = tl.sum(total, 1) / columns
    spread = tl.rsqrt(tl.sum(squares, 1) / columns - mean * mean + eps)
    for offset in range(0, columns, BLOCK):
        at = offset + lanes[None, :]
        inside = (row[:, None] < rows) & (at < columns)
        x = tl.load(x_ptr + start + at, mask=inside, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + at, mask=at < columns, other=0.0).to(tl.float32)
        y = (x - mean[:, None]) * spread[:, None] * w
        tl.store(out_ptr + start + at, y.to(tl.float16), mask=inside)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lanes = tl.arange(0, BLOCK)
    start = row[:, None].to(tl.int64) * columns
    most = tl.full((ROWS, BLOCK), -1e30, tl.float32)
    weight = tl.zeros((ROWS, BLOCK), tl.float32)
    for offset in range(0, columns, BLOCK):
        at = offset + lanes[None, :]
        inside = (row[:, None] < rows) & (at < columns)
        x = tl.load(x_ptr + start + at, mask=inside, other=-1e30).to(tl.float32)
        new = tl.maximum(most, x)
        weight = weight * tl.exp(most - new) + tl.exp(x - new)
        most = new
    top = tl.max(most, 1)
    total = tl.sum(weight * tl.exp(most - top[:, None]), 1)
    for offset in range(0, columns, BLOCK):
        at = offset + lanes[None, :]
        inside = (row[:, None] < rows) & (at < columns)
        x = tl.load(x_ptr + start + at, mask=inside, other=0.0).to(tl.float32)
        y = tl.exp(x - top[:, None]) / total[:, None]
        tl.store(out_ptr + start + at, y.to(tl.float16), mask=inside)


@triton.jit
def gelu_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr, TURNS: tl.constexpr):
    for turn in tl.static_range(TURNS):
        offsets = (tl.program_id(0) * TURNS + turn) * BLOCK + tl.arange(0, BLOCK)
        inside = offsets < n
        x = tl.load(x_ptr + offsets, mask=inside).to(tl.float32)
        y = tl.load(y_ptr + offsets, mask=inside).to(tl.float32)
        gelu = 0.5 * x * (1 + tl.math.erf(x * 0.7071067811865476))
        tl.store(out_ptr + offsets, (gelu * y).to(tl.float16), mask=inside)


@triton.jit(do_not_specialize=["groups", "M"])
def grouped_matmul_kernel(
    a_table, b_table, c_table, heights, groups, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Products of one weight each for groups of rows; tables have the addresses of the matrices.

    `groups` and `M`, the most rows of one, make the grid. They are passed for tuning to key on.
    """
    group = tl.program_id(1)
    height = tl.load(heights + group)
    columns = tl.cdiv(N, BLOCK_N)
    pid_m, pid_n = tl.program_id(0) // columns, tl.program_id(0) % columns
    if pid_m * BLOCK_M < height:
        a_ptr = tl.load(a_table + group).to(tl.pointer_type(tl.float16))
        b_ptr = tl.load(b_table + group).to(tl.pointer_type(tl.float16))
        c_ptr = tl.load(c_table + group).to(tl.pointer_type(tl.float16))
        m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
        n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
        k = tl.arange(0, BLOCK_K)
        a = tl.multiple_of(a_ptr, 16) + (m % height)[:, None] * K + k[None, :]
        b = tl.multiple_of(b_ptr, 16) + k[:, None] * N + (n % N)[None, :]
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for start in range(0, K, BLOCK_K):
            left = start + k < K
            total = tl.dot(
                tl.load(a, mask=left[None, :], other=0.0),
                tl.load(b, mask=left[:, None], other=0.0),
                total,
            )
            a += BLOCK_K
            b += BLOCK_K * N
        inside = (m[:, None] < height) & (n[None, :] < N)
        tl.store(c_ptr + m[:, None] * N + n[None, :], total.to(tl.float16), mask=inside)
