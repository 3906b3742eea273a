"""Kernels for the comparison of tuners.

They are held out: no part of the tuner was designed for them or fitted to them.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Kernels have no annotations except `constexpr`: the types depend on the arguments of a launch.
# mypy: disable-error-code="no-untyped-def"


@triton.jit
def block_scaled_kernel(
    a_ptr, b_ptr, a_scale_ptr, b_scale_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Multiply 8-bit floats; scales apply to 1 x 128 blocks of `a` and 128 x 128 tiles of `b`."""
    rows, columns = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    of_group = tl.program_id(0) // (GROUP * columns) * GROUP
    height = min(rows - of_group, GROUP)
    within = tl.program_id(0) % (GROUP * columns)
    m = (of_group + within % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = within // height * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, 128)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(K // 128):
        at = step * 128 + k
        a = tl.load(a_ptr + m[:, None] * K + at[None, :], mask=m[:, None] < M, other=0.0)
        b = tl.load(b_ptr + n[None, :] * K + at[:, None], mask=n[None, :] < N, other=0.0)
        by_row = tl.load(a_scale_ptr + m * (K // 128) + step, mask=m < M, other=0.0)
        by_tile = tl.load(b_scale_ptr + n // 128 * (K // 128) + step, mask=n < N, other=0.0)
        total += tl.dot(a, b) * by_row[:, None] * by_tile[None, :]
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total.to(tl.bfloat16), mask=inside)


@triton.jit
def selective_scan_kernel(
    x_ptr, step_ptr, a_ptr, b_ptr, c_ptr, out_ptr, length, channels,
    STATES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Update states per channel, whose decay depends on the step; read them after each token."""
    channel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    state = tl.arange(0, STATES)
    there = channel < channels
    a = tl.load(a_ptr + channel[:, None] * STATES + state[None, :], mask=there[:, None], other=0.0)
    h = tl.zeros((BLOCK, STATES), tl.float32)
    first = tl.program_id(1).to(tl.int64) * length
    for token in range(length):
        at = (first + token) * channels + channel
        x = tl.load(x_ptr + at, mask=there, other=0.0).to(tl.float32)
        step = tl.load(step_ptr + at, mask=there, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + (first + token) * STATES + state).to(tl.float32)
        c = tl.load(c_ptr + (first + token) * STATES + state).to(tl.float32)
        h = tl.exp(step[:, None] * a) * h + (step * x)[:, None] * b[None, :]
        y = tl.sum(h * c[None, :], 1)
        tl.store(out_ptr + at, y.to(tl.bfloat16), mask=there)


@triton.jit
def add_norm_kernel(
    x_ptr, residual_ptr, w_ptr, out_ptr, rows, columns, eps,
    WIDTH: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Add rows to the residual in place, and normalise the sum by its root mean square."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lanes = tl.arange(0, WIDTH)
    inside = (row[:, None] < rows) & (lanes[None, :] < columns)
    at = row[:, None].to(tl.int64) * columns + lanes[None, :]
    total = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    total += tl.load(residual_ptr + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(residual_ptr + at, total.to(tl.bfloat16), mask=inside)
    spread = tl.rsqrt(tl.sum(total * total, 1) / columns + eps)
    w = tl.load(w_ptr + lanes, mask=lanes < columns, other=0.0).to(tl.float32)
    y = total * spread[:, None] * w[None, :]
    tl.store(out_ptr + at, y.to(tl.bfloat16), mask=inside)


@triton.jit
def depthwise_kernel(
    x_ptr, w_ptr, out_ptr, height, width, channels,
    BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Convolve each channel separately with a 3 x 3 filter; the layout is channels last."""
    pixel = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    image = tl.program_id(2).to(tl.int64) * height * width
    y, x = pixel // width, pixel % width
    total = tl.zeros((BLOCK_P, BLOCK_C), tl.float32)
    for dy in tl.static_range(3):
        for dx in tl.static_range(3):
            v, u = y + dy - 1, x + dx - 1
            there = (v >= 0) & (v < height) & (u >= 0) & (u < width)
            inside = there[:, None] & (c[None, :] < channels)
            at = (image + v * width + u)[:, None] * channels + c[None, :]
            w = tl.load(w_ptr + (dy * 3 + dx) * channels + c, mask=c < channels, other=0.0)
            total += tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32) * w[None, :]
    inside = (pixel < height * width)[:, None] & (c[None, :] < channels)
    tl.store(
        out_ptr + (image + pixel)[:, None] * channels + c[None, :], total.to(tl.float16), inside
    )


@triton.jit
def quantize_kernel(
    x_ptr, out_ptr, scale_ptr, rows, columns, BLOCK: tl.constexpr, ROWS: tl.constexpr
):
    """Quantise each row to int8 with a scale that maps its largest magnitude to 127."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    start = row[:, None].to(tl.int64) * columns
    most = tl.zeros((ROWS,), tl.float32)
    for offset in range(0, columns, BLOCK):
        at = offset + tl.arange(0, BLOCK)[None, :]
        inside = (row[:, None] < rows) & (at < columns)
        x = tl.load(x_ptr + start + at, mask=inside, other=0.0).to(tl.float32)
        most = tl.maximum(most, tl.max(tl.abs(x), 1))
    scale = tl.maximum(most, 1e-6) / 127.0
    tl.store(scale_ptr + row, scale, mask=row < rows)
    for offset in range(0, columns, BLOCK):
        at = offset + tl.arange(0, BLOCK)[None, :]
        inside = (row[:, None] < rows) & (at < columns)
        x = tl.load(x_ptr + start + at, mask=inside, other=0.0).to(tl.float32) / scale[:, None]
        whole = tl.floor(x + 0.5).to(tl.int8)
        tl.store(out_ptr + start + at, whole, mask=inside)


@triton.jit
def window_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, length, window, scale,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute attention to a window of previous tokens; four heads share keys and values."""
    head = tl.program_id(1)
    start = tl.program_id(0) * BLOCK_M
    m = start + tl.arange(0, BLOCK_M)
    lanes = tl.arange(0, HEAD)
    own = head.to(tl.int64) * length * HEAD
    shared = (head // 4).to(tl.int64) * length * HEAD
    q = tl.load(q_ptr + own + m[:, None] * HEAD + lanes[None, :], mask=m[:, None] < length, other=0)
    most = tl.full((BLOCK_M,), -1e30, tl.float32)
    weight = tl.zeros((BLOCK_M,), tl.float32)
    total = tl.zeros((BLOCK_M, HEAD), tl.float32)
    first = tl.maximum(0, start - window) // BLOCK_N * BLOCK_N
    for offset in range(first, tl.minimum(start + BLOCK_M, length), BLOCK_N):
        n = offset + tl.arange(0, BLOCK_N)
        at = shared + n[:, None] * HEAD + lanes[None, :]
        k = tl.load(k_ptr + at, mask=n[:, None] < length, other=0.0)
        v = tl.load(v_ptr + at, mask=n[:, None] < length, other=0.0)
        back = m[:, None] - n[None, :]
        scores = tl.where((back >= 0) & (back < window), tl.dot(q, tl.trans(k)) * scale, -1e30)
        new = tl.maximum(most, tl.max(scores, 1))
        p = tl.where(scores > -1e29, tl.exp2(scores - new[:, None]), 0.0)
        fade = tl.exp2(most - new)
        weight = weight * fade + tl.sum(p, 1)
        total = total * fade[:, None] + tl.dot(p.to(tl.float16), v)
        most = new
    y = total / tl.maximum(weight, 1e-20)[:, None]
    at = own + m[:, None] * HEAD + lanes[None, :]
    tl.store(out_ptr + at, y.to(tl.float16), mask=m[:, None] < length)


@triton.jit
def route_kernel(x_ptr, weight_ptr, expert_ptr, rows, EXPERTS: tl.constexpr, ROWS: tl.constexpr):
    """Select the two experts with the greatest scores for each token, and compute their weights."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lanes = tl.arange(0, EXPERTS)
    there = row < rows
    x = tl.load(x_ptr + row[:, None] * EXPERTS + lanes[None, :], mask=there[:, None], other=0.0)
    x = x.to(tl.float32)
    first = tl.argmax(x, 1)
    most = tl.max(x, 1)
    others = tl.where(lanes[None, :] == first[:, None], -1e30, x)
    second = tl.argmax(others, 1)
    share = 1.0 / (1.0 + tl.exp(tl.max(others, 1) - most))
    tl.store(expert_ptr + row * 2, first.to(tl.int32), mask=there)
    tl.store(expert_ptr + row * 2 + 1, second.to(tl.int32), mask=there)
    tl.store(weight_ptr + row * 2, share, mask=there)
    tl.store(weight_ptr + row * 2 + 1, 1.0 - share, mask=there)
