"""The kernels that the benchmark measures, written like kernels for a GPU.

They are not tuned for any side: all sides except torch run this file unchanged.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Kernels have no annotations except `constexpr`: the types depend on the arguments of a launch.
# mypy: disable-error-code="no-untyped-def"


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, x + y, mask=inside)


@triton.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    index = tl.load(index_ptr + offsets, mask=inside, other=0)
    tl.store(out_ptr + offsets, tl.load(x_ptr + index, mask=inside), mask=inside)


@triton.jit
def scatter_kernel(index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    index = tl.load(index_ptr + offsets, mask=inside, other=0)
    tl.store(out_ptr + index, index, mask=inside)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    inside = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=inside, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * columns + lanes, numerator / tl.sum(numerator, axis=0), mask=inside)


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def scan_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    inside = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=inside, other=0.0)
    tl.store(out_ptr + row * columns + lanes, tl.associative_scan(x, 0, plus), mask=inside)


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * stride_am + inner[None, :] * stride_ak
    b_ptrs = b_ptr + inner[:, None] * stride_bk + columns[None, :] * stride_bn
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        left = K - start
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (inner[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=(inner[:, None] < left) & (columns[None, :] < N), other=0.0)
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee")
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    c_ptrs = c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn
    tl.store(c_ptrs, accumulator, mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, N,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute causal attention over contiguous [heads, N, D]; `scale` includes log2(e)."""
    base = tl.program_id(1) * N * D
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    depth = tl.arange(0, D)
    inside = rows[:, None] < N
    q = tl.load(q_ptr + base + rows[:, None] * D + depth[None, :], mask=inside, other=0.0)
    largest = tl.full([BLOCK_M], -float("inf"), dtype=tl.float32)
    total = tl.zeros([BLOCK_M], dtype=tl.float32)
    out = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    # The causal mask excludes blocks of keys past the diagonal for all queries of this program.
    for start in range(0, (tl.program_id(0) + 1) * BLOCK_M, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        offsets = base + keys[:, None] * D + depth[None, :]
        k = tl.load(k_ptr + offsets, mask=keys[:, None] < N, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        scores = tl.where(rows[:, None] >= keys[None, :], scores, -float("inf"))
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_largest[:, None])
        rescale = tl.exp2(largest - new_largest)
        total = total * rescale + tl.sum(weights, axis=1)
        v = tl.load(v_ptr + offsets, mask=keys[:, None] < N, other=0.0)
        out = tl.dot(weights, v, out * rescale[:, None], input_precision="ieee")
        largest = new_largest
    out /= total[:, None]
    tl.store(out_ptr + base + rows[:, None] * D + depth[None, :], out, mask=inside)


@triton.jit
def layer_norm_forward_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, mean_ptr, rstd_ptr, columns, eps, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    inside = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=inside, other=0.0)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(inside, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    weight = tl.load(weight_ptr + lanes, mask=inside)
    bias = tl.load(bias_ptr + lanes, mask=inside)
    tl.store(out_ptr + row * columns + lanes, centred * rstd * weight + bias, mask=inside)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def layer_norm_backward_kernel(
    x_ptr, weight_ptr, dout_ptr, mean_ptr, rstd_ptr, dx_ptr, partial_ptr, locks_ptr,
    columns, GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute a row's `dx`; add its weight and bias gradients to its group's sums, locked."""
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    inside = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=inside, other=0.0)
    dout = tl.load(dout_ptr + row * columns + lanes, mask=inside, other=0.0)
    weight = tl.load(weight_ptr + lanes, mask=inside, other=0.0)
    mean = tl.load(mean_ptr + row)
    rstd = tl.load(rstd_ptr + row)
    normal = tl.where(inside, (x - mean) * rstd, 0.0)
    scaled = weight * dout
    along_normal = tl.sum(normal * scaled, axis=0) / columns
    along_ones = tl.sum(scaled, axis=0) / columns
    dx = (scaled - normal * along_normal - along_ones) * rstd
    tl.store(dx_ptr + row * columns + lanes, dx, mask=inside)

    group = row % GROUPS
    begun_ptr = locks_ptr + GROUPS + group
    dweight_ptrs = partial_ptr + group * columns + lanes
    dbias_ptrs = dweight_ptrs + GROUPS * columns
    dweight = dout * normal
    dbias = dout
    while tl.atomic_cas(locks_ptr + group, 0, 1) == 1:
        pass
    if tl.load(begun_ptr) == 0:
        tl.store(begun_ptr, 1)
    else:
        dweight += tl.load(dweight_ptrs, mask=inside)
        dbias += tl.load(dbias_ptrs, mask=inside)
    tl.store(dweight_ptrs, dweight, mask=inside)
    tl.store(dbias_ptrs, dbias, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(locks_ptr + group, 0)


@triton.jit
def layer_norm_sum_kernel(
    partial_ptr, gradient_ptr, columns,
    GROUPS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Sum the groups' partial gradients; the grid's second index selects weight or bias."""
    which = tl.program_id(1)
    lanes = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = lanes < columns
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, GROUPS, BLOCK_M):
        groups = which * GROUPS + start + tl.arange(0, BLOCK_M)
        offsets = groups[:, None] * columns + lanes[None, :]
        total += tl.load(partial_ptr + offsets, mask=inside[None, :], other=0.0)
    tl.store(gradient_ptr + which * columns + lanes, tl.sum(total, axis=0), mask=inside)


@triton.jit
def tiny_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Add 1 to one vector in one program, so that the measured time is that of the launch."""
    lanes = tl.arange(0, BLOCK)
    inside = lanes < n
    tl.store(out_ptr + lanes, tl.load(x_ptr + lanes, mask=inside) + 1.0, mask=inside)
