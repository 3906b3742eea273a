"""Correct kernels with index arithmetic of libraries, and the sizes for which they are proved."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


def _blocks(count, block=64):
    return (triton.cdiv(count, block),)


@triton.jit
def pixel_shuffle_kernel(x_ptr, y_ptr, h, w, R: tl.constexpr, BLOCK: tl.constexpr, total):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < total
    column, row, channel = i % (w * R), i // (w * R) % (h * R), i // (w * R * h * R)
    inner = channel * R * R + row % R * R + column % R
    x = tl.load(x_ptr + inner * h * w + row // R * w + column // R, mask=mask)
    tl.store(y_ptr + i, x, mask=mask)


def pixel_shuffle(n):
    x, y = torch.randn(12, 32, n), torch.empty(3, 64, 2 * n)
    total = 3 * 64 * 2 * n
    pixel_shuffle_kernel[_blocks(total)](x, y, 32, n, R=2, BLOCK=64, total=total)


@triton.jit
def pixel_unshuffle_kernel(x_ptr, y_ptr, h, w, R: tl.constexpr, BLOCK: tl.constexpr, total):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < total
    column, row, channel = i % w, i // w % h, i // (w * h)
    inner, outer = channel % (R * R), channel // (R * R)
    at = (outer * h * R + row * R + inner // R) * (w * R) + column * R + inner % R
    tl.store(y_ptr + i, tl.load(x_ptr + at, mask=mask), mask=mask)


def pixel_unshuffle(n):
    x, y = torch.randn(3, 64, 2 * n), torch.empty(12, 32, n)
    total = 12 * 32 * n
    pixel_unshuffle_kernel[_blocks(total)](x, y, 32, n, R=2, BLOCK=64, total=total)


@triton.jit
def im2col_kernel(x_ptr, y_ptr, w, out, total, BLOCK: tl.constexpr):
    """Unfold 3x3 patches with stride 2 and zero padding from an image of 16 rows."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tap, place = i % 9, i // 9
    row, column = place // out * 2 + tap // 3 - 1, place % out * 2 + tap % 3 - 1
    inside = (i < total) & (row >= 0) & (row < 16) & (column >= 0) & (column < w)
    x = tl.load(x_ptr + row * w + column, mask=inside, other=0.0)
    tl.store(y_ptr + i, x, mask=i < total)


def im2col(n):
    out = (n + 1) // 2
    total = 8 * out * 9
    x, y = torch.randn(16, n), torch.empty(8 * out, 9)
    im2col_kernel[_blocks(total)](x, y, n, out, total, BLOCK=64)


@triton.jit
def im2col_channels_kernel(x_ptr, y_ptr, h, w, channels, total, BLOCK: tl.constexpr):
    """Unfold 3x3 patches without padding from an image with the channels last."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c, tap, place = i % channels, i // channels % 9, i // (channels * 9)
    row, column = place // (w - 2) + tap // 3, place % (w - 2) + tap % 3
    x = tl.load(x_ptr + (row * w + column) * channels + c, mask=i < total)
    tl.store(y_ptr + i, x, mask=i < total)


def im2col_channels(n):
    x = torch.randn(16, n + 2, 8)
    total = 14 * n * 9 * 8
    y = torch.empty(14 * n, 72)
    im2col_channels_kernel[_blocks(total)](x, y, 16, n + 2, 8, total, BLOCK=64)


@triton.jit
def stencil_kernel(x_ptr, y_ptr, w, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = x_ptr + row * w + i
    left = tl.load(at - 1, mask=(i >= 1) & (i < w), other=0.0)
    right = tl.load(at + 1, mask=i + 1 < w, other=0.0)
    tl.store(y_ptr + row * w + i, left + right, mask=i < w)


def stencil(n):
    stencil_kernel[(triton.cdiv(n, 64), 16)](torch.randn(16, n), torch.empty(16, n), n, BLOCK=64)


@triton.jit
def flat_stencil_kernel(x_ptr, y_ptr, w, total, BLOCK: tl.constexpr):
    """Add the neighbours of each element, whose column is a remainder of its index."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = i % w
    left = tl.load(x_ptr + i - 1, mask=(i < total) & (c > 0), other=0.0)
    right = tl.load(x_ptr + i + 1, mask=(i < total) & (c < w - 1), other=0.0)
    up = tl.load(x_ptr + i - w, mask=(i < total) & (i // w > 0), other=0.0)
    down = tl.load(x_ptr + i + w, mask=(i < total) & (i // w < total // w - 1), other=0.0)
    tl.store(y_ptr + i, left + right + up + down, mask=i < total)


def flat_stencil(n):
    x, y = torch.randn(16, n), torch.empty(16, n)
    flat_stencil_kernel[_blocks(16 * n)](x, y, n, 16 * n, BLOCK=64)


@triton.jit
def red_black_kernel(x_ptr, n, BLOCK: tl.constexpr):
    """Replace each even element by the mean of its odd neighbours, in place."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x_ptr + 2 * i - 1, mask=(i >= 1) & (2 * i < n), other=0.0)
    right = tl.load(x_ptr + 2 * i + 1, mask=2 * i + 1 < n, other=0.0)
    tl.store(x_ptr + 2 * i, (left + right) / 2, mask=2 * i < n)


def red_black(n):
    red_black_kernel[_blocks((n + 1) // 2)](torch.randn(n), n, BLOCK=64)


@triton.jit
def rope_kernel(x_ptr, cos_ptr, half, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = i < half
    at = x_ptr + row * (2 * half) + i
    a, b = tl.load(at, mask=mask), tl.load(at + half, mask=mask)
    c = tl.load(cos_ptr + i, mask=mask)
    tl.store(at, a * c - b, mask=mask)
    tl.store(at + half, b * c + a, mask=mask)


def rope(n):
    rope_kernel[(32, triton.cdiv(n, 64))](torch.randn(32, 2 * n), torch.randn(n), n, BLOCK=64)


@triton.jit
def flat_rope_kernel(x_ptr, half, total, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = x_ptr + i // half * (2 * half) + i % half
    a, b = tl.load(at, mask=i < total), tl.load(at + half, mask=i < total)
    tl.store(at, a - b, mask=i < total)
    tl.store(at + half, b + a, mask=i < total)


def flat_rope(n):
    flat_rope_kernel[_blocks(32 * n)](torch.randn(32, 2 * n), n, 32 * n, BLOCK=64)


def butterfly(n):
    """Launch one in-place pass of a butterfly transform over pairs at distance n."""
    flat_rope_kernel[_blocks(8 * n)](torch.randn(16 * n), n, 8 * n, BLOCK=64)


@triton.jit
def rope_pairs_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x_ptr + 2 * i, mask=i < n // 2)
    b = tl.load(x_ptr + 2 * i + 1, mask=i < n // 2)
    tl.store(x_ptr + 2 * i, a - b, mask=i < n // 2)
    tl.store(x_ptr + 2 * i + 1, a + b, mask=i < n // 2)


def rope_pairs(n):
    rope_pairs_kernel[_blocks(n // 2 + 1)](torch.randn(n), n, BLOCK=64)


@triton.jit
def split_k_kernel(a_ptr, p_ptr, m, k, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    """Sum parts of rows, with one program per row and part."""
    pid = tl.program_id(0)
    row, part = pid // SPLIT, pid % SPLIT
    chunk = tl.cdiv(k, SPLIT)
    total = 0.0
    for start in range(part * chunk, tl.minimum((part + 1) * chunk, k), BLOCK):
        i = start + tl.arange(0, BLOCK)
        mask = i < tl.minimum((part + 1) * chunk, k)
        total += tl.sum(tl.load(a_ptr + row * k + i, mask=mask, other=0.0))
    tl.store(p_ptr + part * m + row, total)


def split_k(n):
    split_k_kernel[(32 * 4,)](torch.randn(32, n), torch.empty(4, 32), 32, n, SPLIT=4, BLOCK=64)


@triton.jit
def pack_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    low = tl.load(x_ptr + 2 * i, mask=2 * i < n, other=0)
    high = tl.load(x_ptr + 2 * i + 1, mask=2 * i + 1 < n, other=0)
    tl.store(y_ptr + i, low | (high << 4), mask=2 * i < n)


def pack(n):
    x, y = torch.zeros(n, dtype=torch.uint8), torch.empty((n + 1) // 2, dtype=torch.uint8)
    pack_kernel[_blocks((n + 1) // 2)](x, y, n, BLOCK=64)


@triton.jit
def unpack_rows_kernel(x_ptr, y_ptr, n, packed, total, BLOCK: tl.constexpr):
    """Unpack rows of n 4-bit numbers; each row starts at a byte."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, column = i // n, i % n
    both = tl.load(x_ptr + row * packed + column // 2, mask=i < total, other=0)
    tl.store(y_ptr + i, (both >> (column % 2 * 4)) & 15, mask=i < total)


def unpack_rows(n):
    x = torch.zeros(16, (n + 1) // 2, dtype=torch.uint8)
    y = torch.empty(16, n, dtype=torch.uint8)
    unpack_rows_kernel[_blocks(16 * n)](x, y, n, x.shape[1], 16 * n, BLOCK=64)


@triton.jit
def dequantise_kernel(q_ptr, s_ptr, y_ptr, n, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    """Unpack eight 4-bit numbers per int32, with one scale per group of rows."""
    k = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    q = tl.load(q_ptr + k // 8 * n + c, mask=c < n, other=0)
    s = tl.load(s_ptr + k // GROUP * n + c, mask=c < n, other=0.0)
    tl.store(y_ptr + k * n + c, ((q >> (k % 8 * 4)) & 15) * s, mask=c < n)


def dequantise(n):
    q, s = torch.zeros(32, n, dtype=torch.int32), torch.randn(2, n)
    dequantise_kernel[(256, triton.cdiv(n, 64))](q, s, torch.empty(256, n), n, GROUP=128, BLOCK=64)


@triton.jit
def transposes_kernel(x_ptr, y_ptr, m, n, B: tl.constexpr):
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(m, B), tl.cdiv(n, B)
    batch, inside = pid // (rows * columns), pid % (rows * columns)
    r = inside // columns * B + tl.arange(0, B)
    c = inside % columns * B + tl.arange(0, B)
    mask = (r < m)[:, None] & (c < n)[None, :]
    x = tl.load(x_ptr + batch * m * n + r[:, None] * n + c[None, :], mask=mask)
    tl.store(y_ptr + batch * m * n + c[None, :] * m + r[:, None], x, mask=mask)


def transposes(n):
    """Transpose a batch of matrices in a one-dimensional grid."""
    grid = (4 * 3 * triton.cdiv(n, 16),)
    transposes_kernel[grid](torch.randn(4, 40, n), torch.empty(4, n, 40), 40, n, B=16)


@triton.jit
def permute_kernel(x_ptr, y_ptr, c, h, w, total, BLOCK: tl.constexpr):
    """Permute channels first to channels last; lanes are elements of the output."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel, column, row, batch = i % c, i // c % w, i // (c * w) % h, i // (c * w * h)
    at = ((batch * c + channel) * h + row) * w + column
    tl.store(y_ptr + i, tl.load(x_ptr + at, mask=i < total), mask=i < total)


def permute(n):
    x, y = torch.randn(2, 3, 16, n), torch.empty(2, 16, n, 3)
    permute_kernel[_blocks(96 * n)](x, y, 3, 16, n, 96 * n, BLOCK=64)


@triton.jit
def scattered_permute_kernel(x_ptr, y_ptr, c, h, w, total, BLOCK: tl.constexpr):
    """Permute channels last to channels first; lanes are elements of the input."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel, column, row, batch = i % c, i // c % w, i // (c * w) % h, i // (c * w * h)
    at = ((batch * c + channel) * h + row) * w + column
    tl.store(y_ptr + at, tl.load(x_ptr + i, mask=i < total), mask=i < total)


def scattered_permute(n):
    x, y = torch.randn(2, 16, n, 3), torch.empty(2, 3, 16, n)
    scattered_permute_kernel[_blocks(96 * n)](x, y, 3, 16, n, 96 * n, BLOCK=64)


@triton.jit
def pool_kernel(x_ptr, y_ptr, w, out, total, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, column = i // out, i % out
    best = float("-inf")
    for tap in tl.static_range(4):
        at = (2 * row + tap // 2) * w + 2 * column + tap % 2
        best = tl.maximum(best, tl.load(x_ptr + at, mask=i < total))
    tl.store(y_ptr + i, best, mask=i < total)


def pool(n):
    out = n // 2
    pool_kernel[_blocks(8 * out)](
        torch.randn(16, n), torch.empty(8, out), n, out, 8 * out, BLOCK=64
    )


@triton.jit
def roll_kernel(x_ptr, y_ptr, n, shift, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + (i + shift) % n, tl.load(x_ptr + i, mask=i < n), mask=i < n)


def roll(n):
    roll_kernel[_blocks(n)](torch.randn(n), torch.empty(n), n, 3, BLOCK=64)


@triton.jit
def concatenate_kernel(x_ptr, y_ptr, z_ptr, a, b, total, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, column = i // (a + b), i % (a + b)
    first = column < a
    x = tl.load(x_ptr + row * a + column, mask=(i < total) & first, other=0.0)
    y = tl.load(y_ptr + row * b + column - a, mask=(i < total) & (column >= a), other=0.0)
    tl.store(z_ptr + i, tl.where(first, x, y), mask=i < total)


def concatenate(n):
    x, y, z = torch.randn(16, n), torch.randn(16, 5), torch.empty(16, n + 5)
    concatenate_kernel[_blocks(16 * (n + 5))](x, y, z, n, 5, 16 * (n + 5), BLOCK=64)


@triton.jit
def windows_kernel(x_ptr, y_ptr, w, total, S: tl.constexpr, BLOCK: tl.constexpr):
    """Rearrange the S by S windows of an image into rows."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, window = i % (S * S), i // (S * S)
    row = window // (w // S) * S + inside // S
    column = window % (w // S) * S + inside % S
    x = tl.load(x_ptr + row * w + column, mask=i < total)
    tl.store(y_ptr + i, x, mask=i < total)


def windows(n):
    x, y = torch.randn(28, 7 * n), torch.empty(4 * n, 49)
    windows_kernel[_blocks(196 * n)](x, y, 7 * n, 196 * n, S=7, BLOCK=64)


@triton.jit
def unwindows_kernel(x_ptr, y_ptr, w, total, S: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, window = i % (S * S), i // (S * S)
    row = window // (w // S) * S + inside // S
    column = window % (w // S) * S + inside % S
    x = tl.load(x_ptr + i, mask=i < total)
    tl.store(y_ptr + row * w + column, x, mask=i < total)


def unwindows(n):
    x, y = torch.randn(4 * n, 49), torch.empty(28, 7 * n)
    unwindows_kernel[_blocks(196 * n)](x, y, 7 * n, 196 * n, S=7, BLOCK=64)


@triton.jit
def triangle_kernel(y_ptr, n, BLOCK: tl.constexpr):
    """Store the rows of a lower triangle without gaps."""
    row = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + row * (row + 1) // 2 + c, c, mask=c <= row)


def triangle(n):
    y = torch.empty(n * (n + 1) // 2, dtype=torch.int32)
    triangle_kernel[(n, triton.cdiv(n, 64))](y, n, BLOCK=64)


@triton.jit
def chunks_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Copy a contiguous chunk per program, for any number of programs."""
    pid, programs = tl.program_id(0), tl.num_programs(0)
    chunk = tl.cdiv(n, programs)
    end = tl.minimum((pid + 1) * chunk, n)
    for start in range(pid * chunk, end, BLOCK):
        i = start + tl.arange(0, BLOCK)
        tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < end), mask=i < end)


def chunks(n):
    chunks_kernel[(12,)](torch.randn(n), torch.empty(n), n, BLOCK=64)


@triton.jit
def causal_kernel(x_ptr, w_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(4):
        x = tl.load(x_ptr + row * n + i - 3 + k, mask=(i - 3 + k >= 0) & (i < n), other=0.0)
        total += x * tl.load(w_ptr + row * 4 + k)
    tl.store(y_ptr + row * n + i, total, mask=i < n)


def causal(n):
    x, w, y = torch.randn(16, n), torch.randn(16, 4), torch.empty(16, n)
    causal_kernel[(16, triton.cdiv(n, 64))](x, w, y, n, BLOCK=64)


@triton.jit
def heads_kernel(q_ptr, k_ptr, o_ptr, heads, shared, n, D: tl.constexpr, BLOCK: tl.constexpr):
    """Multiply queries by keys that groups of heads share; one grid axis has batch and head."""
    pid = tl.program_id(1)
    batch, head = pid // heads, pid % heads
    key = head // (heads // shared)
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    mask = (r < n)[:, None]
    q = tl.load(q_ptr + (pid * n + r[:, None]) * D + d[None, :], mask=mask)
    k = tl.load(k_ptr + ((batch * shared + key) * n + r[:, None]) * D + d[None, :], mask=mask)
    tl.store(o_ptr + (pid * n + r[:, None]) * D + d[None, :], q * k, mask=mask)


def heads(n):
    q, k, o = torch.randn(2, 8, n, 16), torch.randn(2, 2, n, 16), torch.empty(2, 8, n, 16)
    heads_kernel[(triton.cdiv(n, 32), 16)](q, k, o, 8, 2, n, D=16, BLOCK=32)


def heads_of_many(n):
    """Launch with a number of heads that depends on the size, in groups of four."""
    q, k, o = (
        torch.randn(2, 4 * n, 40, 16),
        torch.randn(2, n, 40, 16),
        torch.empty(2, 4 * n, 40, 16),
    )
    heads_kernel[(2, 8 * n)](q, k, o, 4 * n, n, 40, D=16, BLOCK=32)


@triton.jit
def grouped_kernel(y_ptr, M, N, BLOCK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BLOCK), tl.cdiv(N, BLOCK)
    width = GROUP * columns
    first = pid // width * GROUP
    height = min(rows - first, GROUP)
    r = (first + pid % width % height) * BLOCK + tl.arange(0, BLOCK)
    c = pid % width // height * BLOCK + tl.arange(0, BLOCK)
    mask = (r < M)[:, None] & (c < N)[None, :]
    tl.store(y_ptr + r[:, None].to(tl.int64) * N + c[None, :], pid, mask=mask)


def grouped(n):
    y = torch.empty(n, n, dtype=torch.int32)
    blocks = triton.cdiv(n, 16)
    grouped_kernel[(blocks * blocks,)](y, n, n, BLOCK=16, GROUP=8)


def grouped_columns(n):
    grid = (6 * triton.cdiv(n, 16),)
    grouped_kernel[grid](torch.empty(90, n, dtype=torch.int32), 90, n, BLOCK=16, GROUP=4)


@triton.jit
def cyclic_kernel(x_ptr, y_ptr, n, local, PARTS: tl.constexpr, B: tl.constexpr):
    """Distribute blocks of B elements cyclically; the blocks of each part are contiguous."""
    block = tl.program_id(0)
    i = block * B + tl.arange(0, B)
    to = block % PARTS * local + block // PARTS * B + tl.arange(0, B)
    tl.store(y_ptr + to, tl.load(x_ptr + i, mask=i < n), mask=i < n)


def cyclic(n):
    local = triton.cdiv(triton.cdiv(n, 16), 4) * 16
    cyclic_kernel[_blocks(n, 16)](torch.randn(n), torch.empty(4 * local), n, local, PARTS=4, B=16)


@triton.jit
def upsample_kernel(x_ptr, y_ptr, w, out, total, BLOCK: tl.constexpr):
    """Resize rows to any width by the nearest column."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, column = i // out, i % out
    x = tl.load(x_ptr + row * w + column * w // out, mask=i < total)
    tl.store(y_ptr + i, x, mask=i < total)


def upsample(n):
    x, y = torch.randn(16, 30), torch.empty(16, n)
    upsample_kernel[_blocks(16 * n)](x, y, 30, n, 16 * n, BLOCK=64)


@triton.jit
def varlen_kernel(x_ptr, y_ptr, cu_ptr, D: tl.constexpr, BLOCK: tl.constexpr):
    """Copy packed sequences, with one program per block of a sequence."""
    sequence = tl.program_id(1)
    begin, end = tl.load(cu_ptr + sequence), tl.load(cu_ptr + sequence + 1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if tl.program_id(0) * BLOCK < end - begin:
        at = (begin + i)[:, None] * D + tl.arange(0, D)[None, :]
        mask = (i < end - begin)[:, None]
        tl.store(y_ptr + at, tl.load(x_ptr + at, mask=mask), mask=mask)


def varlen(n):
    x, y = torch.randn(n, 16), torch.empty(n, 16)
    cu = torch.randint(0, 9, (9,), dtype=torch.int32)
    varlen_kernel[(triton.cdiv(n, 32), 8)](x, y, cu, D=16, BLOCK=32)


@triton.jit
def to_jagged_kernel(x_ptr, y_ptr, cu_ptr, most, BLOCK: tl.constexpr):
    """Pack padded rows, with one program per row that loops over its blocks."""
    row = tl.program_id(0)
    begin, end = tl.load(cu_ptr + row), tl.load(cu_ptr + row + 1)
    length = tl.minimum(end - begin, most)
    for start in range(0, length, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * most + i, mask=i < length)
        tl.store(y_ptr + begin + i, x, mask=i < length)


def to_jagged(n):
    x, y = torch.randn(8, 50), torch.empty(n)
    to_jagged_kernel[(8,)](x, y, torch.randint(0, 9, (9,)), 50, BLOCK=16)


@triton.jit
def ragged_kernel(x_ptr, w_ptr, y_ptr, offsets_ptr, n, K: tl.constexpr, B: tl.constexpr):
    """Multiply the tokens of each expert by its weights, with one program per tile."""
    expert = tl.program_id(2)
    begin, end = tl.load(offsets_ptr + expert), tl.load(offsets_ptr + expert + 1)
    r = begin + tl.program_id(0) * B + tl.arange(0, B)
    c = tl.program_id(1) * B + tl.arange(0, B)
    k = tl.arange(0, K)
    x = tl.load(x_ptr + r[:, None] * K + k[None, :], mask=(r < end)[:, None], other=0.0)
    w = tl.load(
        w_ptr + (expert * K + k[:, None]) * n + c[None, :], mask=(c < n)[None, :], other=0.0
    )
    mask = (r < end)[:, None] & (c < n)[None, :]
    tl.store(y_ptr + r[:, None] * n + c[None, :], tl.dot(x, w), mask=mask)


def ragged(n):
    """Launch for n tokens that are distributed to eight experts."""
    x, w, y = torch.randn(n, 16), torch.randn(8, 16, 48), torch.empty(n, 48)
    offsets = torch.randint(0, 9, (9,), dtype=torch.int32)
    ragged_kernel[(triton.cdiv(n, 16), 3, 8)](x, w, y, offsets, 48, K=16, B=16)


@triton.jit
def pages_kernel(x_ptr, y_ptr, table_ptr, n, PAGE: tl.constexpr, D: tl.constexpr):
    """Copy tokens to their slots in the pages of a cache."""
    token = tl.program_id(0)
    page = tl.load(table_ptr + token // PAGE)
    d = tl.arange(0, D)
    at = (page.to(tl.int64) * PAGE + token % PAGE) * D + d
    tl.store(y_ptr + at, tl.load(x_ptr + token * D + d))


def pages(n):
    table = torch.randint(0, 9, (triton.cdiv(n, 16),), dtype=torch.int32)
    pages_kernel[(n,)](torch.randn(n, 8), torch.empty(n + 16, 16, 8), table, n, PAGE=16, D=8)


_CU = {"cu_ptr": (0, "n", "sorted")}
#: Largest size for which each kernel is proved, from 1 on, and the assumptions on its tables.
RIGHT = {
    pixel_shuffle: (1 << 18, None),
    pixel_unshuffle: (1 << 18, None),
    im2col: (1 << 18, None),
    im2col_channels: (1 << 16, None),
    stencil: (1 << 20, None),
    flat_stencil: (1 << 20, None),
    red_black: (1 << 20, None),
    rope: (1 << 20, None),
    flat_rope: (1 << 20, None),
    butterfly: (1 << 20, None),
    rope_pairs: (1 << 20, None),
    split_k: (1 << 20, None),
    pack: (1 << 20, None),
    unpack_rows: (1 << 20, None),
    dequantise: (1 << 20, None),
    transposes: (1 << 18, None),
    permute: (1 << 18, None),
    scattered_permute: (1 << 18, None),
    pool: (1 << 20, None),
    roll: (1 << 20, None),
    concatenate: (1 << 20, None),
    windows: (1 << 18, None),
    unwindows: (1 << 18, None),
    triangle: (1 << 15, None),
    chunks: (1 << 20, None),
    causal: (1 << 20, None),
    heads: (1 << 18, None),
    heads_of_many: (1 << 12, None),
    grouped: (1 << 18, None),
    grouped_columns: (1 << 20, None),
    cyclic: (1 << 20, None),
    upsample: (1 << 20, None),
    varlen: (1 << 20, _CU),
    to_jagged: (1 << 20, _CU),
    ragged: (1 << 20, {"offsets_ptr": (0, "n", "sorted")}),
    pages: (1 << 20, {"table_ptr": (0, "n + 15", "distinct")}),
}
