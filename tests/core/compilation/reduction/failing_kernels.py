"""Kernels that do not compile, modelled after frequent errors of kernel authors."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

SCALE = tl.constexpr(0.5)
LIMIT = 100.0


@triton.jit
def activation(x, slope: tl.constexpr = 0.01):
    """Return leaky ReLU."""
    positive = x > 0
    scaled = x * slope
    return tl.where(positive, x, scaled)


@triton.jit
def row_offsets(row, cols, stride):
    return row * stride + cols


@triton.jit
def dot_shapes(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bn, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """Multiply a [M, K] and b [N, K], whose blocks are not transposed."""
    pid = tl.program_id(0)
    num_n = tl.cdiv(N, BN)
    pid_m = pid // num_n
    pid_n = pid % num_n
    offs_m = pid_m * BM + tl.arange(0, BM)
    offs_n = pid_n * BN + tl.arange(0, BN)
    offs_k = tl.arange(0, BK)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :]
    b_ptrs = b_ptr + offs_n[:, None] * stride_bn + offs_k[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[None, :] < K - k * BK, other=0.0)
        acc += tl.dot(a, b)
        a_ptrs += BK
        b_ptrs += BK
    acc = activation(acc)
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float16), mask=mask)


@triton.jit
def carried_type(x_ptr, y_ptr, n, steps, BLOCK: tl.constexpr):
    """Accumulate in float32 although the accumulator begins as float16."""
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.zeros([BLOCK], dtype=tl.float16)
    largest = tl.full([BLOCK], -float("inf"), dtype=tl.float32)
    for step in range(steps):
        x = tl.load(x_ptr + step * n + offsets, mask=mask, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, x)
        if step > 0:
            x = activation(x)
        total = total + x * SCALE
    tl.store(y_ptr + offsets, total, mask=mask)
    tl.store(y_ptr + n + offsets, largest, mask=mask)


@triton.jit
def carried_shape(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Turn a scalar into a block in a loop."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    total = 0.0
    count = 0
    for start in range(0, n, BLOCK):
        offsets = row_offsets(row, start + cols, n)
        x = tl.load(x_ptr + offsets, mask=start + cols < n, other=0.0)
        x = tl.exp(x - LIMIT_VALUE)
        total += x
        count += 1
    tl.store(y_ptr + row, tl.sum(total) / count)


LIMIT_VALUE = tl.constexpr(8.0)


@triton.jit
def odd_range(x_ptr, w_ptr, y_ptr, stride, eps, N: tl.constexpr):
    """Normalise rows of N elements, where N is not a power of two."""
    row = tl.program_id(0)
    cols = tl.arange(0, N)
    x = tl.load(x_ptr + row_offsets(row, cols, stride)).to(tl.float32)
    mean_square = tl.sum(x * x, axis=0) / N
    scale = tl.rsqrt(mean_square + eps)
    w = tl.load(w_ptr + cols)
    tl.store(y_ptr + row_offsets(row, cols, stride), x * scale * w)


@triton.jit
def float_offsets(x_ptr, y_ptr, n, ratio, BLOCK: tl.constexpr):
    """Resample a signal with offsets that are floats."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    position = offsets * ratio
    left = tl.floor(position)
    weight = position - left
    low = tl.load(x_ptr + left, mask=mask, other=0.0)
    high = tl.load(x_ptr + left + 1, mask=mask, other=0.0)
    tl.store(y_ptr + offsets, low * (1 - weight) + high * weight, mask=mask)


@triton.jit
def return_in_loop(x_ptr, y_ptr, n, target, BLOCK: tl.constexpr):
    """Search for a value and return as soon as it is found."""
    pid = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    found = 0
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + pid * n + start + offsets, mask=start + offsets < n, other=0)
        found = tl.max((x == target).to(tl.int32))
        if found > 0:
            tl.store(y_ptr + pid, start)
            return
    tl.store(y_ptr + pid, -1)


@triton.jit
def shared_memory(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """Multiply matrices in blocks that exceed the shared memory of small GPUs."""
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    offs_m = pid_m * BM + tl.arange(0, BM)
    offs_n = pid_n * BN + tl.arange(0, BN)
    offs_k = tl.arange(0, BK)
    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = b_ptr + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK
        b_ptrs += BK * N
    acc = activation(acc)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float16))


@triton.jit
def missing_constexpr(x_ptr, y_ptr, n_rows, n_cols, BLOCK):
    """Compute a softmax whose block size is not declared as a constant."""
    row = tl.program_id(0)
    step = tl.num_programs(0)
    for current in range(row, n_rows, step):
        cols = tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + row_offsets(current, cols, n_cols), mask=mask, other=-float("inf"))
        numerator = tl.exp(x - tl.max(x, axis=0))
        y = numerator / tl.sum(numerator, axis=0)
        tl.store(y_ptr + row_offsets(current, cols, n_cols), y, mask=mask)


@triton.jit
def unknown_attribute(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Use a function that Triton does not have."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    inner = libdevice.sqrt(2.0 / 3.14159) * (x + 0.044715 * x * x * x)
    y = 0.5 * x * (1.0 + tl.hyperbolic_tangent(inner))
    tl.store(y_ptr + offsets, activation(y, 0.5), mask=mask)


@triton.jit
def global_variable(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Read a global variable that is not a constant."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    clipped = tl.minimum(tl.maximum(x, -LIMIT), LIMIT)
    tl.store(y_ptr + offsets, activation(clipped), mask=mask)


@triton.jit
def branch_types(x_ptr, y_ptr, n, scale, BLOCK: tl.constexpr):
    """Assign values of different types in two branches."""
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    if pid > scale:
        y = activation(x)
    else:
        y = tl.sum(x, axis=0)
    tl.store(y_ptr + offsets, y * 2, mask=mask)


@triton.jit
def assembler_error(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Use an instruction that does not exist."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    y = tl.inline_asm_elementwise(
        "fastexp.approx.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1
    )
    total = tl.sum(y, axis=0)
    tl.store(y_ptr + offsets, y / total, mask=mask)


@triton.jit
def compiler_crash(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Pack four elements although the instruction has one result, which crashes LLVM."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    y = tl.inline_asm_elementwise(
        "mov.b32 $0, $1;", "=r,r", [activation(x)], dtype=tl.float32, is_pure=True, pack=4
    )
    tl.store(y_ptr + offsets, y + 1, mask=mask)


@triton.jit
def endless_unrolling(x_ptr, y_ptr, n, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """Unroll a loop with very many iterations."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for step in tl.static_range(STEPS):
        x = tl.load(x_ptr + step * n + offsets, mask=mask, other=0.0)
        total += activation(x)
    tl.store(y_ptr + offsets, total, mask=mask)


@triton.jit
def too_many_warps(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Use more warps than a block can have, by a launch option."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    tl.store(y_ptr + offsets, activation(x) * SCALE, mask=mask)


@triton.jit
def failing_pass(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Specialise warps in clusters, which an assertion in a pass of Triton 3.9 rejects."""
    offsets = tl.arange(0, BLOCK)
    x_ptrs = x_ptr + offsets[:, None] * BLOCK + offsets[None, :]
    total = tl.zeros([BLOCK, BLOCK], tl.float32)
    for k in tl.range(0, n, warp_specialize=True):
        x = tl.load(x_ptrs + k)
        total = tl.dot(x, x, total)
    y = activation(total)
    tl.store(y_ptr + offsets[:, None] * BLOCK + offsets[None, :], y.to(tl.float16))


@triton.jit
def rejected_operation(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Pack three elements per instruction, which MLIR rejects because of the number of lanes."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    y = tl.inline_asm_elementwise(
        "mov.b32 $0, $1;", "=r,r", [x * SCALE], dtype=tl.float32, is_pure=True, pack=3
    )
    tl.store(y_ptr + offsets, activation(y), mask=mask)
