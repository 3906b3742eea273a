"""Kernels that are typical of libraries, in addition to those of the tutorials.

They are not tuned for any side: all sides except torch run this file unchanged.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Kernels have no annotations except `constexpr`: the types depend on the arguments of a launch.
# mypy: disable-error-code="no-untyped-def"


@triton.jit
def rms_norm_kernel(x_ptr, weight_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    inside = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=inside, other=0.0)
    weight = tl.load(weight_ptr + lanes, mask=inside)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / columns + eps)
    tl.store(out_ptr + row * columns + lanes, x * scale * weight, mask=inside)


@triton.jit
def cross_entropy_kernel(x_ptr, target_ptr, loss_ptr, columns, BLOCK: tl.constexpr):
    """Compute the loss of a row; its maximum and sum are computed in one pass over its blocks."""
    row = tl.program_id(0)
    x_ptr += row * columns
    target = tl.load(target_ptr + row)
    largest = -float("inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + lanes, mask=lanes < columns, other=-float("inf"))
        larger = tl.maximum(largest, tl.max(x, axis=0))
        total = total * tl.exp(largest - larger) + tl.sum(tl.exp(x - larger), axis=0)
        largest = larger
    tl.store(loss_ptr + row, largest + tl.log(total) - tl.load(x_ptr + target))


@triton.jit
def rope_kernel(
    x_ptr, cos_ptr, sin_ptr, out_ptr, positions, HEADS: tl.constexpr, WIDTH: tl.constexpr
):
    """Rotate all heads of a position; x is [batch, positions, heads, width], contiguous."""
    at = tl.program_id(0)
    half = tl.arange(0, WIDTH // 2)
    cos = tl.load(cos_ptr + at % positions * (WIDTH // 2) + half)[None, :]
    sin = tl.load(sin_ptr + at % positions * (WIDTH // 2) + half)[None, :]
    offsets = (at * HEADS + tl.arange(0, HEADS)[:, None]) * WIDTH + half[None, :]
    first = tl.load(x_ptr + offsets)
    second = tl.load(x_ptr + offsets + WIDTH // 2)
    tl.store(out_ptr + offsets, first * cos - second * sin)
    tl.store(out_ptr + offsets + WIDTH // 2, second * cos + first * sin)


@triton.jit
def swiglu_kernel(gate_ptr, up_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    gate = tl.load(gate_ptr + offsets, mask=inside)
    up = tl.load(up_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, gate * tl.sigmoid(gate) * up, mask=inside)


@triton.jit
def batched_matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Multiply contiguous f16 matrices whose sizes are multiples of the block sizes."""
    batch = tl.program_id(2)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + batch * M * K + rows[:, None] * K + inner[None, :]
    b_ptrs = b_ptr + batch * K * N + inner[:, None] * N + columns[None, :]
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        accumulator = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), accumulator)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N
    c_ptrs = c_ptr + batch * M * N + rows[:, None] * N + columns[None, :]
    tl.store(c_ptrs, accumulator.to(tl.float16))


@triton.jit
def split_k_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, SPLIT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Add partial products of a tile to `c` atomically; sizes are multiples of the block sizes."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    share = K // SPLIT
    inner = tl.program_id(2) * share + tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * K + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * N + columns[None, :]
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, share, BLOCK_K):
        a, b = tl.load(a_ptrs), tl.load(b_ptrs)
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N
    tl.atomic_add(c_ptr + rows[:, None] * N + columns[None, :], accumulator, sem="relaxed")


@triton.jit
def sort_kernel(x_ptr, out_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(out_ptr + at, tl.sort(tl.load(x_ptr + at)))


@triton.jit
def histogram_kernel(x_ptr, counts_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside, other=0)
    counts = tl.histogram(x, BINS, mask=inside)
    tl.atomic_add(counts_ptr + tl.arange(0, BINS), counts, sem="relaxed")


@triton.jit
def transpose_kernel(x_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    x = tl.load(x_ptr + rows[:, None] * N + columns[None, :], mask=inside)
    out_ptrs = out_ptr + columns[:, None] * M + rows[None, :]
    tl.store(out_ptrs, tl.trans(x), mask=tl.trans(inside))


@triton.jit
def descriptor_product_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALISED: tl.constexpr,
):  # fmt: skip
    """Multiply f16 matrices that are loaded through descriptors; the second one is transposed."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros([BM, BN], tl.float32)
    for start in tl.range(0, K, BK, warp_specialize=SPECIALISED):
        total = tl.dot(a.load([row, start]), b.load([column, start]).T, total)
    c.store([row, column], total.to(tl.float16))


@triton.jit
def grouped_product_kernel(
    x_ptr, w_ptr, out_ptr, offset_ptr, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Multiply the rows of each group by the matrix of the group; groups may be empty."""
    group = tl.program_id(0)
    first, last = tl.load(offset_ptr + group), tl.load(offset_ptr + group + 1)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    for start in range(first, last, BM):
        r = start + tl.arange(0, BM)
        total = tl.zeros([BM, BN], tl.float32)
        for depth in range(0, K, BK):
            i = depth + tl.arange(0, BK)
            x = tl.load(x_ptr + r[:, None] * K + i[None, :], mask=r[:, None] < last, other=0.0)
            total = tl.dot(x, tl.load(w_ptr + (group * K + i[:, None]) * N + c[None, :]), total)
        out = total.to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + r[:, None] * N + c[None, :], out, mask=r[:, None] < last)
