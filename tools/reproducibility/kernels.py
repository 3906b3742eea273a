"""Kernels that were written before the rules of the verdicts were finished."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from tools.reproducibility.cases import Cases, configs

# Kernels have no annotations except `constexpr`: the types depend on the arguments of a launch.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

CASES = Cases()
WARPS = (1, 4, 8)
_ROWS = configs(BLOCK=(1024, 2048), num_warps=WARPS)
_LOOPS = configs(BLOCK=(128, 256, 512), num_warps=(1, 4))


@triton.jit
def softmax_kernel(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    offs, start = tl.arange(0, BLOCK), tl.program_id(0) * n
    x = tl.load(x_ptr + start + offs, mask=offs < n, other=-float("inf"))
    powers = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + start + offs, powers / tl.sum(powers, 0), mask=offs < n)


@CASES.add(_ROWS, lambda draw: {"x": draw.normal(48, 1000)}, x=0)
def softmax(config, x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](out, x, x.shape[1], **config)
    return out


@triton.jit
def log_softmax_kernel(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    offs, start = tl.arange(0, BLOCK), tl.program_id(0) * n
    top = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, n, BLOCK):
        x = tl.load(x_ptr + start + first + offs, mask=first + offs < n, other=-float("inf"))
        new = tl.maximum(top, x)
        total = total * tl.exp(tl.where(top == new, 0.0, top - new)) + tl.exp(
            tl.where(new == -float("inf"), -float("inf"), x - new)
        )
        top = new
    highest = tl.max(top, 0)
    norm = highest + tl.log(tl.sum(total * tl.exp(top - highest), 0))
    for first in range(0, n, BLOCK):
        x = tl.load(x_ptr + start + first + offs, mask=first + offs < n)
        tl.store(out_ptr + start + first + offs, x - norm, mask=first + offs < n)


@CASES.add(_LOOPS, lambda draw: {"x": draw.normal(24, 1000)}, x=0)
def log_softmax(config, x):
    out = torch.empty_like(x)
    log_softmax_kernel[(x.shape[0],)](out, x, x.shape[1], **config)
    return out


@triton.jit
def rms_norm_kernel(out_ptr, x_ptr, weight_ptr, n, BLOCK: tl.constexpr):
    offs, start = tl.arange(0, BLOCK), tl.program_id(0) * n
    x = tl.load(x_ptr + start + offs, mask=offs < n, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, 0) / n + 1e-6)
    weight = tl.load(weight_ptr + offs, mask=offs < n, other=0.0)
    tl.store(out_ptr + start + offs, x * scale * weight, mask=offs < n)


@CASES.add(
    configs(BLOCK=(512, 1024), num_warps=WARPS),
    lambda draw: {"x": draw.half(64, 500), "weight": draw.normal(500)},
    x=0,
)
def rms_norm(config, x, weight):
    out = torch.empty(x.shape, device=x.device)
    rms_norm_kernel[(x.shape[0],)](out, x, weight, x.shape[1], **config)
    return out


@triton.jit
def layer_norm_kernel(out_ptr, mean_ptr, x_ptr, weight_ptr, bias_ptr, n, BLOCK: tl.constexpr):
    offs, start = tl.arange(0, BLOCK), tl.program_id(0) * n
    mask = offs < n
    x = tl.load(x_ptr + start + offs, mask=mask, other=0.0)
    mean = tl.sum(x, 0) / n
    centred = tl.where(mask, x - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / n + 1e-5)
    weight, bias = tl.load(weight_ptr + offs, mask=mask), tl.load(bias_ptr + offs, mask=mask)
    tl.store(mean_ptr + tl.program_id(0), mean)
    tl.store(out_ptr + start + offs, centred * scale * weight + bias, mask=mask)


@CASES.add(
    _ROWS,
    lambda draw: {"x": draw.normal(48, 640), "weight": draw.normal(640), "bias": draw.normal(640)},
    x=0,
)
def layer_norm(config, x, weight, bias):
    out, mean = torch.empty_like(x), torch.empty(x.shape[0], device=x.device)
    layer_norm_kernel[(x.shape[0],)](out, mean, x, weight, bias, x.shape[1], **config)
    return out, mean


@triton.jit
def add_norm_kernel(out_ptr, res_ptr, x_ptr, weight_ptr, n, ROWS: tl.constexpr, D: tl.constexpr):
    rows, offs = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, D)
    at, mask = rows[:, None] * D + offs[None, :], (rows < n)[:, None]
    total = tl.load(x_ptr + at, mask=mask, other=0.0) + tl.load(res_ptr + at, mask=mask, other=0.0)
    scale = tl.rsqrt(tl.sum(total * total, 1) / D + 1e-6)
    weight = tl.load(weight_ptr + offs)
    tl.store(out_ptr + at, total * scale[:, None] * weight[None, :], mask=mask)


@CASES.add(
    configs(ROWS=(1, 4, 16), num_warps=(1, 4)),
    lambda draw: {"x": draw.normal(70, 256), "res": draw.normal(70, 256), "w": draw.normal(256)},
    x=0,
    res=0,
)
def add_norm(config, x, res, w):
    out, rows = torch.empty_like(x), x.shape[0]
    add_norm_kernel[(triton.cdiv(rows, config["ROWS"]),)](out, res, x, w, rows, D=256, **config)
    return out


@triton.jit
def row_sum_kernel(out_ptr, x_ptr, rows, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    own, offs = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    mask = (own < rows)[:, None] & (offs < n)[None, :]
    x = tl.load(x_ptr + own[:, None] * n + offs[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + own, tl.sum(x, 1), mask=own < rows)


@CASES.add(
    configs(ROWS=(1, 8), BLOCK=(256, 512), num_warps=(2, 4)),
    lambda draw: {"x": draw.normal(100, 200)},
    x=0,
)
def row_sum(config, x):
    rows, n = x.shape
    out = torch.empty(rows, device=x.device)
    row_sum_kernel[(triton.cdiv(rows, config["ROWS"]),)](out, x, rows, n, **config)
    return out


@triton.jit
def column_sum_kernel(out_ptr, x_ptr, rows, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, rows, ROWS):
        own = start + tl.arange(0, ROWS)
        mask = (own < rows)[:, None] & (columns < n)[None, :]
        total += tl.load(x_ptr + own[:, None] * n + columns[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + columns, tl.sum(total, 0), mask=columns < n)


@CASES.add(
    configs(ROWS=(16, 32), BLOCK=(32, 64), num_warps=(1, 4)),
    lambda draw: {"x": draw.normal(150, 500)},
    x=1,
)
def column_sum(config, x):
    rows, n = x.shape
    out = torch.empty(n, device=x.device)
    column_sum_kernel[(triton.cdiv(n, config["BLOCK"]),)](out, x, rows, n, **config)
    return out


@triton.jit
def long_sum_kernel(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    offs, start = tl.arange(0, BLOCK), tl.program_id(0) * n
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, n, BLOCK):
        total += tl.load(x_ptr + start + first + offs, mask=first + offs < n, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(total, 0) / n)


@CASES.add(_LOOPS, lambda draw: {"x": draw.normal(64, 700)}, x=0)
def mean_of_rows(config, x):
    out = torch.empty(x.shape[0], device=x.device)
    long_sum_kernel[(x.shape[0],)](out, x, x.shape[1], **config)
    return out


@triton.jit
def matmul_kernel(
    out_ptr, a_ptr, b_ptr, M, N, K,
    BLOCK: tl.constexpr, BLOCK_K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        a_mask, b_mask = (rows < M)[:, None] & (ks < K)[None, :], (ks < K)[:, None]
        a = tl.load(a_ptr + rows[:, None] * K + ks[None, :], mask=a_mask, other=0.0)
        b_mask = b_mask & (columns < N)[None, :]
        b = tl.load(b_ptr + ks[:, None] * N + columns[None, :], mask=b_mask, other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    mask = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(out_ptr + rows[:, None] * N + columns[None, :], acc, mask=mask)


def _matmul(config, a, b, precision="tf32"):
    (m, k), n = a.shape, b.shape[1]
    out, block = torch.empty(m, n, device=a.device), config["BLOCK"]
    grid = (triton.cdiv(m, block), triton.cdiv(n, block))
    matmul_kernel[grid](out, a, b, m, n, k, PRECISION=precision, **config)
    return out


@CASES.add(
    configs(BLOCK=(32, 64), BLOCK_K=(32, 64), num_warps=(2, 4)),
    lambda draw: {"a": draw.half(96, 160), "b": draw.half(160, 96)},
    a=0,
)
def matmul_f16(config, a, b):
    return _matmul(config, a, b)


@CASES.add(
    configs(BLOCK=(32, 64), BLOCK_K=(16, 64), num_warps=(1, 4)),
    lambda draw: {"a": draw.normal(96, 144), "b": draw.normal(144, 96)},
    a=0,
)
def matmul_tf32(config, a, b):
    return _matmul(config, a, b)


@CASES.add(
    configs(BLOCK=(16, 32), BLOCK_K=(16, 32), num_warps=(1, 4)),
    lambda draw: {"a": draw.normal(48, 80), "b": draw.normal(80, 48)},
    a=0,
)
def matmul_without_tensor_cores(config, a, b):
    return _matmul(config, a, b, "ieee")


@triton.jit
def steps_kernel(out_ptr, a_ptr, b_ptr, c_ptr, K: tl.constexpr, PAD: tl.constexpr):
    rows, ks = tl.arange(0, 64), tl.arange(0, K + PAD)
    own = tl.program_id(0) * 64 * K
    at = rows[:, None] * 64 + rows[None, :] + tl.program_id(0) * 64 * 64
    mask = ks < K
    a = tl.load(a_ptr + own + rows[:, None] * K + ks[None, :], mask=mask[None, :], other=0.0)
    b = tl.load(b_ptr + own + ks[:, None] * 64 + rows[None, :], mask=mask[:, None], other=0.0)
    tl.store(out_ptr + at, tl.dot(a, b, tl.load(c_ptr + at)))


def _steps(draw, dtype):
    def wide(*shape):
        exponents = draw.integers(20, *shape) - 10
        return torch.ldexp(draw.normal(*shape), exponents)

    a, b, c = wide(48, 64, 16), wide(48, 16, 64), wide(48, 64, 64)
    a[:, ::8] = 0.0  # products that are zero, added to zeros of either sign and to other numbers
    c = torch.where(draw.integers(9, 48, 64, 64) == 0, -0.0, c)
    return {"a": a.to(dtype), "b": b.to(dtype), "c": c}


_STEPS = configs(PAD=(0, 16), num_warps=(1, 2, 4))


def _one_step(config, a, b, c):
    out = torch.empty_like(c)
    steps_kernel[(a.shape[0],)](out, a, b, c, K=16, **config)
    return out


@CASES.add(_STEPS, lambda draw: _steps(draw, torch.float16))
def instructions_f16(config, a, b, c):
    return _one_step(config, a, b, c)


@CASES.add(_STEPS, lambda draw: _steps(draw, torch.bfloat16))
def instructions_bf16(config, a, b, c):
    return _one_step(config, a, b, c)


@CASES.add(_STEPS, lambda draw: _steps(draw, torch.float32))
def instructions_tf32(config, a, b, c):
    return _one_step(config, a, b, c)


@triton.jit
def attention_kernel(
    out_ptr, q_ptr, k_ptr, v_ptr, n, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK: tl.constexpr
):
    head, rows = tl.program_id(1), tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims, offs = tl.arange(0, D), tl.arange(0, BLOCK)
    own = head * n * D + rows[:, None] * D + dims[None, :]
    q = tl.load(q_ptr + own, mask=(rows < n)[:, None], other=0.0)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    for start in range(0, n, BLOCK):
        keys, valid = head * n * D + (start + offs) * D, start + offs < n
        k = tl.load(k_ptr + keys[None, :] + dims[:, None], mask=valid[None, :], other=0.0)
        scores = tl.where(valid[None, :], tl.dot(q, k) * 0.25, -float("inf"))
        new_m = tl.maximum(m, tl.max(scores, 1))
        p = tl.exp2(scores - new_m[:, None])
        scale = tl.exp2(m - new_m)
        total = total * scale + tl.sum(p, 1)
        v = tl.load(v_ptr + keys[:, None] + dims[None, :], mask=valid[:, None], other=0.0)
        acc = tl.dot(p.to(tl.float16), v, acc * scale[:, None])
        m = new_m
    tl.store(out_ptr + own, acc / total[:, None], mask=(rows < n)[:, None])


@CASES.add(
    configs(BLOCK_M=(16, 64), BLOCK=(32, 64), num_warps=(2, 4)),
    lambda draw: {name: draw.half(4, 100, 32) for name in ("q", "k", "v")},
    q=0,
    k=0,
    v=0,
)
def attention(config, q, k, v):
    heads, n, d = q.shape
    out, grid = torch.empty(q.shape, device=q.device), (triton.cdiv(n, config["BLOCK_M"]), heads)
    attention_kernel[grid](out, q, k, v, n, D=d, **config)
    return out


@triton.jit
def swiglu_kernel(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask, start = offs < n, tl.program_id(0) * 2 * n
    gate = tl.load(x_ptr + start + offs, mask=mask, other=0.0)
    up = tl.load(x_ptr + start + n + offs, mask=mask, other=0.0)
    tl.store(out_ptr + tl.program_id(0) * n + offs, gate * tl.sigmoid(gate) * up, mask=mask)


_PIECES = configs(BLOCK=(128, 256, 1024), num_warps=(1, 4))


@CASES.add(_PIECES, lambda draw: {"x": draw.normal(40, 600)}, x=0)
def swiglu(config, x):
    rows, n = x.shape[0], x.shape[1] // 2
    out = torch.empty(rows, n, device=x.device)
    swiglu_kernel[(rows, triton.cdiv(n, config["BLOCK"]))](out, x, n, **config)
    return out


@triton.jit
def rotary_kernel(out_ptr, x_ptr, angle_ptr, half, BLOCK: tl.constexpr):
    offs, row = tl.arange(0, BLOCK), tl.program_id(0)
    mask = offs < half
    angle = tl.load(angle_ptr + row * half + offs, mask=mask)
    x = tl.load(x_ptr + row * 2 * half + offs, mask=mask)
    y = tl.load(x_ptr + row * 2 * half + half + offs, mask=mask)
    c, s = tl.cos(angle), tl.sin(angle)
    tl.store(out_ptr + row * 2 * half + offs, x * c - y * s, mask=mask)
    tl.store(out_ptr + row * 2 * half + half + offs, y * c + x * s, mask=mask)


@CASES.add(
    configs(BLOCK=(64, 128), num_warps=WARPS),
    lambda draw: {"x": draw.normal(60, 96), "angle": draw.normal(60, 48)},
    x=0,
    angle=0,
)
def rotary(config, x, angle):
    out = torch.empty_like(x)
    rotary_kernel[(x.shape[0],)](out, x, angle, angle.shape[1], **config)
    return out


@triton.jit
def cross_entropy_kernel(loss_ptr, x_ptr, label_ptr, n, BLOCK: tl.constexpr):
    row, offs = tl.program_id(0), tl.arange(0, BLOCK)
    label = tl.load(label_ptr + row)
    top = -float("inf")
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + row * n + start + offs, mask=start + offs < n, other=-float("inf"))
        top = tl.maximum(top, tl.max(x, 0))
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + row * n + start + offs, mask=start + offs < n, other=-float("inf"))
        total += tl.exp(x - top)
    loss = tl.log(tl.sum(total, 0)) + top - tl.load(x_ptr + row * n + label)
    tl.store(loss_ptr + row, loss)


@CASES.add(
    _LOOPS,
    lambda draw: {"x": draw.normal(64, 900), "label": draw.integers(900, 64)},
    x=0,
    label=0,
)
def cross_entropy(config, x, label):
    out = torch.empty(x.shape[0], device=x.device)
    cross_entropy_kernel[(x.shape[0],)](out, x, label, x.shape[1], **config)
    return out


@triton.jit
def atomic_sum_kernel(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + offs, mask=offs < n, other=0.0)
    tl.atomic_add(out_ptr + tl.program_id(0), tl.sum(x, 0))


@CASES.add(
    configs(BLOCK=(64, 128, 256), num_warps=(1, 4)), lambda draw: {"x": draw.normal(8, 4000)}, x=0
)
def atomic_sum(config, x):
    rows, n = x.shape
    out = torch.zeros(rows, device=x.device)
    atomic_sum_kernel[(rows, triton.cdiv(n, config["BLOCK"]))](out, x, n, **config)
    return out


@triton.jit
def embedding_gradient_kernel(out_ptr, grad_ptr, key_ptr, count, D: tl.constexpr, R: tl.constexpr):
    rows, offs = tl.program_id(0) * R + tl.arange(0, R), tl.arange(0, D)
    key = tl.load(key_ptr + rows, mask=rows < count, other=0)
    mask = (rows < count)[:, None]
    grad = tl.load(grad_ptr + rows[:, None] * D + offs[None, :], mask=mask, other=0.0)
    tl.atomic_add(out_ptr + key[:, None] * D + offs[None, :], grad, mask=mask)


@CASES.add(
    configs(R=(1, 4, 8), num_warps=(1, 4)),
    lambda draw: {"grad": draw.normal(300, 32), "key": draw.integers(5, 300)},
)
def embedding_gradient(config, grad, key):
    out, count = torch.zeros(5, 32, device=grad.device), key.shape[0]
    grid = (triton.cdiv(count, config["R"]),)
    embedding_gradient_kernel[grid](out, grad, key, count, D=32, **config)
    return out


@triton.jit
def quantise_kernel(out_ptr, scale_ptr, x_ptr, n, BLOCK: tl.constexpr):
    row, offs = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + offs, mask=offs < n, other=0.0)
    scale = tl.maximum(tl.max(tl.abs(x), 0), 1e-10) / 127.0
    q = libdevice.rint(x / scale).to(tl.int8)
    tl.store(scale_ptr + row, scale)
    tl.store(out_ptr + row * n + offs, q, mask=offs < n)


@CASES.add(_ROWS, lambda draw: {"x": draw.normal(48, 800)}, x=0)
def quantise(config, x):
    out = torch.empty(x.shape, dtype=torch.int8, device=x.device)
    scale = torch.empty(x.shape[0], device=x.device)
    quantise_kernel[(x.shape[0],)](out, scale, x, x.shape[1], **config)
    return out, scale


@triton.jit
def matvec_kernel(out_ptr, a_ptr, x_ptr, rows, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    own = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    acc = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, n, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        mask = (own < rows)[:, None] & (offs < n)[None, :]
        a = tl.load(a_ptr + own[:, None] * n + offs[None, :], mask=mask, other=0.0)
        acc += a * tl.load(x_ptr + offs, mask=offs < n, other=0.0)[None, :]
    tl.store(out_ptr + own, tl.sum(acc, 1), mask=own < rows)


@CASES.add(
    configs(ROWS=(4, 16), BLOCK=(64, 128), num_warps=(1, 4)),
    lambda draw: {"a": draw.normal(90, 400), "x": draw.normal(400)},
    a=0,
)
def matvec(config, a, x):
    rows, n = a.shape
    out = torch.empty(rows, device=a.device)
    matvec_kernel[(triton.cdiv(rows, config["ROWS"]),)](out, a, x, rows, n, **config)
    return out


@triton.jit
def gelu_kernel(out_ptr, x_ptr, bias_ptr, count, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < count
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32) + tl.load(bias_ptr + offs % n, mask=mask)
    inner = 0.7978845608 * x * (1 + 0.044715 * x * x)
    tl.store(out_ptr + offs, x * tl.sigmoid(2 * inner), mask=mask)


@CASES.add(_PIECES, lambda draw: {"x": draw.half(40, 300), "bias": draw.normal(300)}, x=0)
def gelu(config, x, bias):
    out, count = torch.empty_like(x), x.numel()
    gelu_kernel[(triton.cdiv(count, config["BLOCK"]),)](out, x, bias, count, x.shape[1], **config)
    return out


@triton.jit
def masked_mean_kernel(out_ptr, x_ptr, keep_ptr, n, BLOCK: tl.constexpr):
    row, offs = tl.program_id(0), tl.arange(0, BLOCK)
    keep = tl.load(keep_ptr + row * n + offs, mask=offs < n, other=0).to(tl.float32)
    x = tl.load(x_ptr + row * n + offs, mask=offs < n, other=0.0)
    count = tl.maximum(tl.sum(keep, 0), 1.0)
    tl.store(out_ptr + row * n + offs, (x - 1.0 / count) * keep, mask=offs < n)


@CASES.add(_ROWS, lambda draw: {"x": draw.normal(48, 700), "keep": draw.integers(2, 48, 700)},
           x=0, keep=0)  # fmt: skip
def masked_count(config, x, keep):
    out = torch.empty_like(x)
    masked_mean_kernel[(x.shape[0],)](out, x, keep, x.shape[1], **config)
    return out
