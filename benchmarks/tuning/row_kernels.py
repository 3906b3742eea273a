"""More kernels that tuners are compared on: rows of numbers, forward and backward.

Must not know who tunes them nor over which space.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Kernels have no annotations but constexpr: their parameters are what a launch makes of them.
# mypy: disable-error-code="no-untyped-def"


@triton.jit
def cross_entropy_kernel(x_ptr, target_ptr, loss_ptr, grad_ptr, rows, columns, BLOCK: tl.constexpr):
    """The loss of a row over all classes, and its gradient, in two passes."""
    row = tl.program_id(0)
    start = row.to(tl.int64) * columns
    lanes = tl.arange(0, BLOCK)
    target = tl.load(target_ptr + row)
    most = tl.full((), float("-inf"), tl.float32)
    weight = tl.zeros((), tl.float32)
    for offset in range(0, columns, BLOCK):
        inside = offset + lanes < columns
        x = tl.load(x_ptr + start + offset + lanes, mask=inside, other=float("-inf"))
        x = x.to(tl.float32)
        new = tl.maximum(most, tl.max(x, 0))
        weight = weight * tl.exp(most - new) + tl.sum(tl.exp(x - new), 0)
        most = new
    at_target = tl.load(x_ptr + start + target).to(tl.float32)
    tl.store(loss_ptr + row, most + tl.log(weight) - at_target)
    for offset in range(0, columns, BLOCK):
        at = offset + lanes
        x = tl.load(x_ptr + start + at, mask=at < columns, other=float("-inf")).to(tl.float32)
        gradient = tl.exp(x - most) / weight - tl.where(at == target, 1.0, 0.0)
        tl.store(grad_ptr + start + at, (gradient / rows).to(tl.bfloat16), mask=at < columns)


@triton.jit
def kl_kernel(x_ptr, y_ptr, loss_ptr, rows, columns, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """The divergence of a row's softmax from another one's, online."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    start = row[:, None].to(tl.int64) * columns
    most_x = tl.full((ROWS,), -1e30, tl.float32)
    most_y = tl.full((ROWS,), -1e30, tl.float32)
    sum_x = tl.zeros((ROWS,), tl.float32)
    sum_y = tl.zeros((ROWS,), tl.float32)
    apart = tl.zeros((ROWS,), tl.float32)
    for offset in range(0, columns, BLOCK):
        at = offset + tl.arange(0, BLOCK)[None, :]
        inside = (row[:, None] < rows) & (at < columns)
        x = tl.load(x_ptr + start + at, mask=inside, other=-1e30).to(tl.float32)
        y = tl.load(y_ptr + start + at, mask=inside, other=-1e30).to(tl.float32)
        new_x, new_y = tl.maximum(most_x, tl.max(x, 1)), tl.maximum(most_y, tl.max(y, 1))
        sum_x = sum_x * tl.exp(most_x - new_x) + tl.sum(tl.exp(x - new_x[:, None]), 1)
        p = tl.where(inside, tl.exp(y - new_y[:, None]), 0.0)
        fade = tl.exp(most_y - new_y)
        sum_y = sum_y * fade + tl.sum(p, 1)
        apart = apart * fade + tl.sum(p * (y - x), 1)
        most_x, most_y = new_x, new_y
    loss = apart / sum_y - (most_y + tl.log(sum_y)) + (most_x + tl.log(sum_x))
    tl.store(loss_ptr + row, loss, mask=row < rows)


@triton.jit
def swiglu_backward_kernel(
    grad_ptr, gate_ptr, up_ptr, grad_gate_ptr, grad_up_ptr, rows, columns,
    BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Gradients of silu(gate) * up."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < columns)
    at = row.to(tl.int64) * columns + column
    grad = tl.load(grad_ptr + at, mask=inside, other=0.0).to(tl.float32)
    gate = tl.load(gate_ptr + at, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + at, mask=inside, other=0.0).to(tl.float32)
    open_ = tl.sigmoid(gate)
    silu = gate * open_
    by_gate = grad * up * (silu * (1 - open_) + open_)
    tl.store(grad_gate_ptr + at, by_gate.to(tl.bfloat16), mask=inside)
    tl.store(grad_up_ptr + at, (grad * silu).to(tl.bfloat16), mask=inside)


@triton.jit
def layer_norm_backward_kernel(
    grad_ptr, x_ptr, w_ptr, mean_ptr, spread_ptr, grad_x_ptr, grad_w_ptr, rows, columns,
    WIDTH: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """Gradients of a layer norm: each program sums up the weights' of its rows, then adds them."""
    lanes = tl.arange(0, WIDTH)
    there = lanes < columns
    w = tl.load(w_ptr + lanes, mask=there, other=0.0).to(tl.float32)
    by_weight = tl.zeros((WIDTH,), tl.float32)
    for row in range(tl.program_id(0), rows, PROGRAMS):
        at = tl.cast(row, tl.int64) * columns + lanes
        grad = tl.load(grad_ptr + at, mask=there, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + at, mask=there, other=0.0).to(tl.float32)
        mean, spread = tl.load(mean_ptr + row), tl.load(spread_ptr + row)
        normed = tl.where(there, (x - mean) * spread, 0.0)
        weighed = w * grad
        along = tl.sum(normed * weighed, 0) / columns
        shift = tl.sum(weighed, 0) / columns
        tl.store(
            grad_x_ptr + at, ((weighed - normed * along - shift) * spread).to(tl.float16), there
        )
        by_weight += grad * normed
    tl.atomic_add(grad_w_ptr + lanes, by_weight, mask=there, sem="relaxed")


@triton.jit
def group_norm_kernel(
    x_ptr, w_ptr, out_ptr, images, channels, pixels, eps, GROUPS: tl.constexpr, BLOCK: tl.constexpr
):
    """Normalises each group of channels of an image, channels first."""
    image, group = tl.program_id(0) // GROUPS, tl.program_id(0) % GROUPS
    own = channels // GROUPS
    count = own * pixels
    start = (image.to(tl.int64) * channels + group * own) * pixels
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for offset in range(0, count, BLOCK):
        at = offset + lanes
        x = tl.load(x_ptr + start + at, mask=at < count, other=0.0).to(tl.float32)
        total += x
        squares += x * x
    mean = tl.sum(total, 0) / count
    spread = tl.rsqrt(tl.sum(squares, 0) / count - mean * mean + eps)
    for offset in range(0, count, BLOCK):
        at = offset + lanes
        x = tl.load(x_ptr + start + at, mask=at < count, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + group * own + at // pixels, mask=at < count, other=0.0)
        y = (x - mean) * spread * w.to(tl.float32)
        tl.store(out_ptr + start + at, y.to(tl.float16), mask=at < count)


@triton.jit
def rope_kernel(
    x_ptr, cos_ptr, sin_ptr, out_ptr, tokens, heads,
    HALF: tl.constexpr, TOKENS: tl.constexpr, HEADS: tl.constexpr,
):  # fmt: skip
    """Turns both halves of each head by its token's angles."""
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    lanes = tl.arange(0, HALF)
    there = token < tokens
    angle = token[:, None] * HALF + lanes[None, :]
    cos = tl.load(cos_ptr + angle, mask=there[:, None], other=0.0)[:, None, :].to(tl.float32)
    sin = tl.load(sin_ptr + angle, mask=there[:, None], other=0.0)[:, None, :].to(tl.float32)
    base = (token.to(tl.int64)[:, None] * heads + head[None, :]) * 2 * HALF
    at = base[:, :, None] + lanes[None, None, :]
    inside = (there[:, None] & (head[None, :] < heads))[:, :, None]
    first = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(x_ptr + at + HALF, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + at, (first * cos - second * sin).to(tl.bfloat16), mask=inside)
    tl.store(out_ptr + at + HALF, (second * cos + first * sin).to(tl.bfloat16), mask=inside)


@triton.jit
def cumsum_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """Sums of each row up to each of its elements, none of which is negative."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    start = row[:, None].to(tl.int64) * columns
    so_far = tl.zeros((ROWS,), tl.float32)
    for offset in range(0, columns, BLOCK):
        at = offset + tl.arange(0, BLOCK)[None, :]
        inside = (row[:, None] < rows) & (at < columns)
        y = tl.cumsum(tl.load(x_ptr + start + at, mask=inside, other=0.0), 1) + so_far[:, None]
        tl.store(out_ptr + start + at, y, mask=inside)
        # A sum of what was loaded ends Triton 3.6: `loopResult.hasOneUse()`.
        so_far = tl.max(tl.where(inside, y, 0.0), 1)
