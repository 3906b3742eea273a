"""More kernels that tuners are compared on: updates, neighbours, tables and atomics.

Must not know who tunes them nor over which space.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Kernels have no annotations but constexpr: their parameters are what a launch makes of them.
# mypy: disable-error-code="no-untyped-def"


@triton.jit
def adam_kernel(p_ptr, g_ptr, m_ptr, v_ptr, n, rate, BLOCK: tl.constexpr, TURNS: tl.constexpr):
    """A step of Adam on parameters and both moments, in place."""
    for turn in tl.static_range(TURNS):
        at = (tl.program_id(0) * TURNS + turn) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        p = tl.load(p_ptr + at, mask=inside)
        g = tl.load(g_ptr + at, mask=inside).to(tl.float32)
        m = 0.9 * tl.load(m_ptr + at, mask=inside) + 0.1 * g
        v = 0.999 * tl.load(v_ptr + at, mask=inside) + 0.001 * g * g
        p -= rate * (m / (tl.sqrt(v) + 1e-8) + 0.01 * p)
        tl.store(p_ptr + at, p, mask=inside)
        tl.store(m_ptr + at, m, mask=inside)
        tl.store(v_ptr + at, v, mask=inside)


@triton.jit
def conv1d_kernel(
    x_ptr, w_ptr, out_ptr, length, channels,
    TAPS: tl.constexpr, BLOCK_L: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """A causal convolution along the length, each channel by itself, channels last."""
    at = tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    base = tl.program_id(2).to(tl.int64) * length * channels
    total = tl.zeros((BLOCK_L, BLOCK_C), tl.float32)
    for tap in tl.static_range(TAPS):
        w = tl.load(w_ptr + tap * channels + c, mask=c < channels, other=0.0).to(tl.float32)
        back = at - (TAPS - 1 - tap)
        inside = (back[:, None] >= 0) & (back[:, None] < length) & (c[None, :] < channels)
        x = tl.load(x_ptr + base + back[:, None] * channels + c[None, :], mask=inside, other=0.0)
        total += x.to(tl.float32) * w[None, :]
    y = total * tl.sigmoid(total)
    inside = (at[:, None] < length) & (c[None, :] < channels)
    tl.store(out_ptr + base + at[:, None] * channels + c[None, :], y.to(tl.bfloat16), mask=inside)


@triton.jit
def stencil_kernel(x_ptr, out_ptr, height, width, BLOCK_Y: tl.constexpr, BLOCK_X: tl.constexpr):
    """The mean of each cell and its four neighbours, those outside as zero."""
    y = tl.program_id(1) * BLOCK_Y + tl.arange(0, BLOCK_Y)[:, None]
    x = tl.program_id(0) * BLOCK_X + tl.arange(0, BLOCK_X)[None, :]
    inside = (y < height) & (x < width)
    at = y * width + x
    total = tl.load(x_ptr + at, mask=inside, other=0.0)
    total += tl.load(x_ptr + at - 1, mask=inside & (x > 0), other=0.0)
    total += tl.load(x_ptr + at + 1, mask=inside & (x + 1 < width), other=0.0)
    total += tl.load(x_ptr + at - width, mask=inside & (y > 0), other=0.0)
    total += tl.load(x_ptr + at + width, mask=inside & (y + 1 < height), other=0.0)
    tl.store(out_ptr + at, total * 0.2, mask=inside)


@triton.jit
def histogram_kernel(
    x_ptr, count_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr, TURNS: tl.constexpr
):
    """How many numbers of 0 to 1 fall into each bin; programs add up their own counts."""
    total = tl.zeros((BINS,), tl.int32)
    for turn in range(TURNS):
        at = (tl.program_id(0) * TURNS + turn) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        x = tl.load(x_ptr + at, mask=inside, other=0.0)
        total += tl.histogram((x * BINS).to(tl.int32), BINS, mask=inside)
    tl.atomic_add(count_ptr + tl.arange(0, BINS), total, sem="relaxed")


@triton.jit
def embedding_backward_kernel(
    grad_ptr, index_ptr, table_ptr, tokens, columns,
    BLOCK: tl.constexpr, TOKENS: tl.constexpr,
):  # fmt: skip
    """Adds each token's gradient to its row of the table's."""
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    there = token < tokens
    row = tl.load(index_ptr + token, mask=there, other=0).to(tl.int64)
    inside = there[:, None] & (column < columns)
    grad = tl.load(
        grad_ptr + token.to(tl.int64)[:, None] * columns + column, mask=inside, other=0.0
    )
    at = table_ptr + row[:, None] * columns + column
    tl.atomic_add(at, grad.to(tl.float32), mask=inside, sem="relaxed")


@triton.jit
def paged_gather_kernel(
    pages_ptr, table_ptr, out_ptr, length, width, pages,
    PAGE: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Copies the tokens of sequences from their pages into one piece each."""
    token = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    sequence = tl.program_id(2).to(tl.int64)
    there = token < length
    page = tl.load(table_ptr + sequence * pages + token // PAGE, mask=there, other=0)
    inside = there[:, None] & (column < width)
    source = (page.to(tl.int64) * PAGE + token % PAGE)[:, None] * width + column
    x = tl.load(pages_ptr + source, mask=inside, other=0.0)
    tl.store(out_ptr + (sequence * length + token)[:, None] * width + column, x, mask=inside)
