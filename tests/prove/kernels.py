"""Kernels and functions that launch them: correct for all sizes, for some sizes, or for none."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


def copy(n):
    x = torch.zeros(n, dtype=torch.int8)
    y = torch.empty_like(x)
    copy_kernel[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)


@triton.jit
def row_kernel(x_ptr, o_ptr, stride, D: tl.constexpr):
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * stride + tl.arange(0, D))
    tl.store(o_ptr + row, tl.sum(x, axis=0))


def rows(n):
    x = torch.zeros(16 * n, 8192, dtype=torch.float16)
    row_kernel[(16 * n,)](x, torch.empty(16 * n), x.stride(0), D=64)


@triton.jit
def transpose_kernel(x_ptr, y_ptr, n, m, BLOCK: tl.constexpr):
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = (r[:, None] < n) & (c[None, :] < m)
    t = tl.load(x_ptr + r[:, None] * m + c[None, :], mask=mask)
    tl.store(y_ptr + c[None, :] * n + r[:, None], t, mask=mask)


def transpose(n, m):
    x, y = torch.randn(n, m), torch.empty(m, n)
    transpose_kernel[(triton.cdiv(n, 32), triton.cdiv(m, 32))](x, y, n, m, BLOCK=32)


@triton.jit
def shift_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs + 1 < n
    b = tl.load(x_ptr + offs + 1, mask=mask)
    tl.store(x_ptr + offs, b, mask=mask)


def shift(n):
    shift_kernel[(triton.cdiv(n, 128),)](torch.randn(n), n, BLOCK=128)


@triton.jit
def ahead_kernel(x_ptr, y_ptr, n, distance, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs + distance, mask=offs < n)
    tl.store(y_ptr + offs, x, mask=offs < n)


def ahead(n, distance):
    x = torch.zeros(n, dtype=torch.int8)
    ahead_kernel[(triton.cdiv(n, 256),)](x, torch.empty_like(x), 900, distance, BLOCK=256)


@triton.jit
def padded_kernel(y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    tl.store(y_ptr + row * n + c, c * 0.5 + row)


def padded(n):
    padded_kernel[(4,)](torch.empty(4, n), n, BLOCK=triton.next_power_of_2(n))


@triton.jit
def gather_kernel(x_ptr, index_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + offs, mask=offs < n, other=0)
    tl.store(y_ptr + offs, tl.load(x_ptr + index, mask=offs < n), mask=offs < n)


def gather_reversed(n):
    index = n - 1 - torch.arange(n)
    gather_kernel[(triton.cdiv(n, 64),)](torch.randn(n), index, torch.empty(n), n, BLOCK=64)


def gather_random(n):
    index = torch.randint(0, n, (n,))
    gather_kernel[(triton.cdiv(n, 64),)](torch.randn(n), index, torch.empty(n), n, BLOCK=64)


@triton.jit
def persistent_kernel(y_ptr, n, tiles, BLOCK: tl.constexpr):
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        offs = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(y_ptr + offs, offs, mask=offs < n)


def persistent(n):
    tiles = triton.cdiv(n, 256)
    persistent_kernel[(min(7, tiles),)](torch.empty(n, dtype=torch.int32), n, tiles, BLOCK=256)


@triton.jit
def grouped_kernel(y_ptr, n, m, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    r = pid // GROUP * BLOCK + tl.arange(0, BLOCK)
    c = pid % GROUP * BLOCK + tl.arange(0, BLOCK)
    mask = (r[:, None] < n) & (c[None, :] < m)
    tl.store(y_ptr + r[:, None] * m + c[None, :], r[:, None] + c[None, :], mask=mask)


def grouped(n):
    y = torch.empty(n, 60, dtype=torch.int32)
    grouped_kernel[(triton.cdiv(n, 16) * 4,)](y, n, 60, GROUP=4, BLOCK=16)


@triton.jit
def while_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK
    total = 0.0
    while i < n:
        total += tl.load(x_ptr + i)
        i += BLOCK * tl.num_programs(0)
    tl.store(y_ptr + tl.program_id(0), total)


def while_loop(n):
    while_kernel[(3,)](torch.zeros(n), torch.empty(3), n, BLOCK=1)


def tall_grid(n):
    x = torch.empty(n, 8)
    tall_kernel[(1, n)](x, BLOCK=8)


def heads_and_batches(n, m):
    x = torch.empty(n * m, 8)
    tall_kernel[(1, n * m)](x, BLOCK=8)


@triton.jit
def tall_kernel(x_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    tl.store(x_ptr + row * BLOCK + tl.arange(0, BLOCK), 0.0)


@triton.jit
def wrapped_end_kernel(x_ptr, o_ptr, n):
    total = 0.0
    for k in range(200 - n * 4096 // 1048576):
        total += tl.load(x_ptr + k)
    tl.store(o_ptr, total)


def wrapped_end(n):
    wrapped_end_kernel[(1,)](torch.randn(200), torch.empty(1), n)


@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, M, N, K, B: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, B), tl.cdiv(N, B)
    first = pid // (GROUP * columns) * GROUP
    height = min(rows - first, GROUP)
    inside = pid % (GROUP * columns)
    at = tl.arange(0, B)
    m, n = (first + inside % height) * B + at, inside // height * B + at
    total = tl.zeros((B, B), tl.float32)
    for k in range(tl.cdiv(K, B)):
        left = K - k * B
        a = tl.load(a_ptr + (m % M)[:, None] * K + k * B + at[None, :], mask=at[None, :] < left)
        b = tl.load(b_ptr + (k * B + at)[:, None] * N + (n % N)[None, :], mask=at[:, None] < left)
        total = tl.dot(a, b, total)
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total, mask=mask)


def product(n):
    a, b, c = torch.randn(n, 64), torch.randn(64, 96), torch.empty(n, 96)
    programs = triton.cdiv(n, 16) * triton.cdiv(96, 16)
    product_kernel[(programs,)](a, b, c, n, 96, 64, B=16, GROUP=8)


@triton.jit
def early_kernel(x_ptr, n, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    if first >= n:
        return
    tl.store(x_ptr + first + tl.arange(0, BLOCK), 0.0)


def early(n):
    early_kernel[(64,)](torch.empty(triton.cdiv(n, 64) * 64), n, BLOCK=64)


def seen_transposed(n, m):
    x = torch.randn(n, m).T
    strided_kernel[(triton.cdiv(m, 32), triton.cdiv(n, 32))](
        x, torch.empty(m, n), x.stride(0), x.stride(1), m, n, B=32
    )


@triton.jit
def strided_kernel(x_ptr, y_ptr, s0, s1, M, N, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.program_id(1) * B + tl.arange(0, B)
    mask = (r[:, None] < M) & (c[None, :] < N)
    x = tl.load(x_ptr + r[:, None] * s0 + c[None, :] * s1, mask=mask)
    tl.store(y_ptr + r[:, None] * N + c[None, :], x, mask=mask)


@triton.jit
def behind_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + (i - 1) % n, mask=i < n)
    tl.store(y_ptr + i, x, mask=i < n)


def behind(n):
    behind_kernel[(triton.cdiv(n, 64),)](torch.randn(n), torch.empty(n), n, BLOCK=64)


@triton.jit
def aligned_kernel(x_ptr, y_ptr, n, UP: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = ((offs - 9) & ~7) + UP
    tl.store(y_ptr + offs, tl.load(x_ptr + first, mask=offs < n), mask=offs < n)


def aligned(n, up=16):
    x, y = torch.zeros(n + 16), torch.empty(n)
    aligned_kernel[(triton.cdiv(n, 256),)](x, y, n, UP=up, BLOCK=256)


def aligned_too_low(n):
    aligned(n, up=15)


@triton.jit
def pairs_kernel(x_ptr, y_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    low = tl.load(x_ptr + row * N + 2 * c, mask=2 * c < N, other=0.0)
    high = tl.load(x_ptr + row * N + 2 * c + 1, mask=2 * c < N, other=0.0)
    tl.store(y_ptr + row.to(tl.int64) * BLOCK + c, low + high)


def odd_pairs(n):
    x, y = torch.zeros(n, 33), torch.empty(n, 32)
    pairs_kernel[(n,)](x, y, N=33, BLOCK=32)


@triton.jit
def bits_kernel(x_ptr, n, LOG: tl.constexpr, BLOCK: tl.constexpr):
    i = (tl.program_id(0) << LOG) | tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.program_id(0), mask=i < n)


def bits(n):
    bits_kernel[(triton.cdiv(n, 64),)](torch.empty(n, dtype=torch.int32), n, LOG=6, BLOCK=64)


def bits_in_common(n):
    bits_kernel[(triton.cdiv(n, 64),)](torch.empty(n, dtype=torch.int32), n, LOG=6, BLOCK=128)


@triton.jit
def packed_kernel(x_ptr, o_ptr):
    i = tl.program_id(0)
    tl.store(o_ptr + i, tl.load(x_ptr + i * (i + 1) // 2))


def packed(n):
    """Load the first element of each row of a packed triangle."""
    packed_kernel[(n,)](torch.zeros(n * (n + 1) // 2, dtype=torch.int8), torch.empty(n))


def capped(n, m):
    """Take a host branch, `m <= n + 10`, that has smaller failing sizes than those found first."""
    x, y = torch.randn(n), torch.empty(max(n, m))
    copy_kernel[(triton.cdiv(max(n, m), 64),)](x, y, min(n + 10, m), BLOCK=64)


def sevens(n, m):
    rows = n if n % 7 else n + 1
    copy_kernel[(triton.cdiv(rows * m, 64),)](
        torch.zeros(n, m), torch.empty(n + 1, m), rows * m, BLOCK=64
    )


@triton.jit
def interleaved_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    both = tl.interleave(c, c + n)
    tl.store(y_ptr + both, tl.load(x_ptr + both, mask=both < 2 * n), mask=both < 2 * n)


def interleaved(n):
    """Interleave indices, so that a partial last block stores to some elements twice."""
    interleaved_kernel[(triton.cdiv(n, 16),)](torch.randn(2 * n), torch.empty(2 * n), n, BLOCK=16)


@triton.jit
def split_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    even, odd = tl.split(tl.reshape(tl.arange(0, 2 * BLOCK), (BLOCK, 2)))
    row = tl.program_id(0) * n
    tl.store(y_ptr + row + even, tl.load(x_ptr + row + odd, mask=odd < n), mask=even < n)


def split(n):
    """Load from the odd partner of each even lane, which the last even lane lacks for odd sizes."""
    split_kernel[(4,)](torch.randn(4, n), torch.empty(4, n), n, BLOCK=16)


def split_past(n):
    split_kernel[(4,)](torch.randn(4, n), torch.empty(4 * n - 1), n, BLOCK=16)


@triton.jit
def two_ways_kernel(y_ptr, n):
    lane = tl.arange(0, 8)
    tl.store(y_ptr + tl.where(lane < 4, lane, lane - 4), lane, mask=lane < n)


def two_ways_to_store(n):
    """Store from lanes 0 and 4 to the same element, by different operands of `tl.where`."""
    two_ways_kernel[(1,)](torch.empty(8, dtype=torch.int32), n)


@triton.jit
def masks_meet_kernel(y_ptr, n):
    lane = tl.arange(0, 16)
    mask = (lane < 4) | ((lane >= 8) & (lane < n))
    tl.store(y_ptr + lane % 8, lane, mask=mask)


def masks_meet(n):
    """Combine two masks that overlap, although each half alone has no overlap."""
    masks_meet_kernel[(1,)](torch.empty(8, dtype=torch.int32), n)


@triton.jit
def concatenated_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offs = tl.cat(2 * lane, 2 * lane + 1)
    x = tl.load(x_ptr + offs, mask=offs < 2 * n)
    tl.store(y_ptr + tl.flip(offs), tl.flip(x), mask=tl.flip(offs) < 2 * n)


def concatenated(n):
    concatenated_kernel[(triton.cdiv(n, 8),)](torch.randn(2 * n), torch.empty(2 * n), n, BLOCK=8)


@triton.jit
def looked_up_kernel(code_ptr, table_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    code = tl.load(code_ptr + offs, mask=offs < n, other=0)
    best = tl.argmax(code.to(tl.int32), axis=0)
    x = tl.load(table_ptr + code) + tl.load(table_ptr + best)
    tl.store(y_ptr + offs, x, mask=offs < n)


def looked_up(n):
    """Index a table by an unsigned byte and by a position in a tile, which have known bounds."""
    code = torch.randint(0, 256, (n,), dtype=torch.uint8)
    y = torch.empty(n)
    looked_up_kernel[(triton.cdiv(n, 64),)](code, torch.randn(256), y, n, BLOCK=64)


@triton.jit
def convolution_kernel(x_ptr, y_ptr, width, n, BLOCK: tl.constexpr, TAPS: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, TAPS)
    row, column = p // n, p % n
    at = (row[:, None] + (k % 9 // 3)[None, :]) * width + column[:, None] + (k % 3)[None, :]
    at += (k // 9)[None, :] * (34 * width)
    mask = (p < 32 * n)[:, None] & (k < 27)[None, :]
    total = tl.sum(tl.load(x_ptr + at, mask=mask, other=0.0), axis=1)
    tl.store(y_ptr + p, total, mask=p < 32 * n)


def convolution(n):
    """Convolve three channels by 3x3 taps, written as a matrix product."""
    x, y = torch.randn(3, 34, n + 2), torch.empty(32, n)
    convolution_kernel[(triton.cdiv(32 * n, 64),)](x, y, n + 2, n, BLOCK=64, TAPS=32)


@triton.jit
def rotated_kernel(y_ptr, M, N, BLOCK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    width = GROUP * tl.cdiv(N, BLOCK)
    group = pid // width
    rows = min(tl.cdiv(M, BLOCK) - group * GROUP, GROUP)
    r = (group * GROUP + pid % rows) * BLOCK + tl.arange(0, BLOCK)
    c = (pid % width) // rows * BLOCK + tl.arange(0, BLOCK)
    mask = (r < M)[:, None] & (c < N)[None, :]
    tl.store(y_ptr + r[:, None] * N + c[None, :], pid, mask=mask)


def rotated(n):
    """Rotate programs in a group by the remainder of the global index instead of the local one."""
    grid = (triton.cdiv(n, 16) * 8,)
    rotated_kernel[grid](torch.empty(n, 128, dtype=torch.int32), n, 128, BLOCK=16, GROUP=4)


@triton.jit
def unmasked_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs))
