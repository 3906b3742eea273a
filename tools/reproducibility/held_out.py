"""Kernels that were written after the rules of the verdicts were finished."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from tools.reproducibility.cases import Cases, configs

# Kernels have no annotations except `constexpr`: the types depend on the arguments of a launch.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

CASES = Cases()
_TILES = configs(ROWS=(1, 4, 8), num_warps=(1, 2, 4))
_ROWS = configs(BLOCK=(512, 1024, 2048), num_warps=(2, 4, 8))


def _count(total, block):
    return triton.cdiv(total, block)


@triton.jit
def l2_norm_kernel(out_ptr, norm_ptr, x_ptr, count, ROWS: tl.constexpr, D: tl.constexpr):
    rows, offs = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, D)
    mask, at = (rows < count)[:, None], rows[:, None] * D + offs[None, :]
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    inverse = 1 / tl.sqrt(tl.sum(x * x, 1) + 1e-6)
    tl.store(norm_ptr + rows, inverse, mask=rows < count)
    tl.store(out_ptr + at, x * inverse[:, None], mask=mask)


@CASES.add(_TILES, lambda draw: {"x": draw.half(90, 128)}, x=0)
def l2_norm(config, x):
    rows, d = x.shape
    out, norm = torch.empty(x.shape, device=x.device), torch.empty(rows, device=x.device)
    l2_norm_kernel[(_count(rows, config["ROWS"]),)](out, norm, x, rows, D=d, **config)
    return out, norm


@triton.jit
def divergence_kernel(loss_ptr, p_ptr, q_ptr, n, BLOCK: tl.constexpr):
    row, offs = tl.program_id(0), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        mask = start + offs < n
        p = tl.load(p_ptr + row * n + start + offs, mask=mask, other=0.0)
        q = tl.load(q_ptr + row * n + start + offs, mask=mask, other=0.0)
        total += tl.where(mask, tl.exp(q) * (q - p), 0.0)
    tl.store(loss_ptr + row, tl.sum(total, 0))


@CASES.add(
    configs(BLOCK=(256, 512, 1024), num_warps=(1, 4)),
    lambda draw: {"p": draw.normal(64, 900), "q": -draw.normal(64, 900).abs()},
    p=0,
    q=0,
)
def divergence(config, p, q):
    out = torch.empty(p.shape[0], device=p.device)
    divergence_kernel[(p.shape[0],)](out, p, q, p.shape[1], **config)
    return out


@triton.jit
def group_norm_kernel(out_ptr, x_ptr, scale_ptr, size, per_channel, groups, BLOCK: tl.constexpr):
    group, offs = tl.program_id(0), tl.arange(0, BLOCK)
    mask = offs < size
    x = tl.load(x_ptr + group * size + offs, mask=mask, other=0.0)
    mean = tl.sum(x, 0) / size
    variance = tl.sum(x * x, 0) / size - mean * mean
    channel = (group % groups) * (size // per_channel) + offs // per_channel
    scale = tl.load(scale_ptr + channel, mask=mask)
    out = (x - mean) * tl.rsqrt(variance + 1e-5) * scale
    tl.store(out_ptr + group * size + offs, out, mask=mask)


@CASES.add(_ROWS, lambda draw: {"x": draw.normal(12, 4, 6, 72), "scale": draw.normal(24)}, x=0)
def group_norm(config, x, scale):
    batch, groups, channels, pixels = x.shape
    out = torch.empty_like(x)
    group_norm_kernel[(batch * groups,)](out, x, scale, channels * pixels, pixels, groups, **config)
    return out


@triton.jit
def layer_norm_bf16_kernel(out_ptr, x_ptr, res_ptr, n, BLOCK: tl.constexpr):
    row, offs = tl.program_id(0), tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + row * n + offs, mask=mask, other=0.0).to(tl.float32)
    x += tl.load(res_ptr + row * n + offs, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, 0) / n
    centred = tl.where(mask, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / n + 1e-5)
    tl.store(out_ptr + row * n + offs, (centred * scale).to(tl.bfloat16), mask=mask)


@CASES.add(
    _ROWS,
    lambda draw: {n: draw.normal(96, 384, dtype=torch.bfloat16) for n in ("x", "res")},
    x=0,
    res=0,
)
def layer_norm_bf16(config, x, res):
    out = torch.empty_like(x)
    layer_norm_bf16_kernel[(x.shape[0],)](out, x, res, x.shape[1], **config)
    return out


@triton.jit
def chunk_state_kernel(
    out_ptr, k_ptr, v_ptr, decay_ptr, T, D: tl.constexpr, BLOCK_D: tl.constexpr, CHUNK: tl.constexpr
):
    head, dims = tl.program_id(1), tl.program_id(0) * BLOCK_D + tl.arange(0, BLOCK_D)
    offs, wide = tl.arange(0, CHUNK), tl.arange(0, D)
    state = tl.zeros((D, BLOCK_D), tl.float32)
    for start in range(0, T, CHUNK):
        mask = start + offs < T
        rows = (head * T + start + offs) * D
        k = tl.load(k_ptr + rows[None, :] + wide[:, None], mask=mask[None, :], other=0.0)
        v = tl.load(v_ptr + rows[:, None] + dims[None, :], mask=mask[:, None], other=0.0)
        decay = tl.load(decay_ptr + head * T + start + offs, mask=mask, other=0.0).to(tl.float32)
        state = state * 0.5 + tl.dot(k, (v * tl.exp(-decay)[:, None]).to(tl.float16))
    tl.store(out_ptr + (head * D + wide[:, None]) * D + dims[None, :], state)


@CASES.add(
    configs(BLOCK_D=(16, 32, 64), CHUNK=(16, 32), num_warps=(2, 4)),
    lambda draw: {
        "k": draw.half(4, 100, 64),
        "v": draw.half(4, 100, 64),
        "decay": draw.normal(4, 100).abs().half(),
    },
    k=0,
    v=0,
    decay=0,
)
def chunk_state(config, k, v, decay):
    heads, t, d = k.shape
    out = torch.empty(heads, d, d, device=k.device)
    grid = (d // config["BLOCK_D"], heads)
    chunk_state_kernel[grid](out, k, v, decay, t, D=d, **config)
    return out


@triton.jit
def merge_kernel(out_ptr, a_ptr, b_ptr, lse_ptr, count, ROWS: tl.constexpr, D: tl.constexpr):
    rows, offs = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, D)
    mask = rows < count
    first = tl.load(lse_ptr + 2 * rows, mask=mask, other=0.0)
    second = tl.load(lse_ptr + 2 * rows + 1, mask=mask, other=0.0)
    top = tl.maximum(first, second)
    one, other = tl.exp(first - top), tl.exp(second - top)
    at = rows[:, None] * D + offs[None, :]
    a = tl.load(a_ptr + at, mask=mask[:, None])
    b = tl.load(b_ptr + at, mask=mask[:, None])
    merged = a * (one / (one + other))[:, None] + b * (other / (one + other))[:, None]
    tl.store(out_ptr + at, merged, mask=mask[:, None])


@CASES.add(
    _TILES,
    lambda draw: {"a": draw.normal(90, 64), "b": draw.normal(90, 64), "lse": draw.normal(90, 2)},
    a=0,
    b=0,
    lse=0,
)
def merge_states(config, a, b, lse):
    out, rows = torch.empty_like(a), a.shape[0]
    merge_kernel[(_count(rows, config["ROWS"]),)](out, a, b, lse, rows, D=a.shape[1], **config)
    return out


@triton.jit
def decode_kernel(out_ptr, q_ptr, k_ptr, v_ptr, n, D: tl.constexpr, BLOCK: tl.constexpr):
    head, dims, offs = tl.program_id(0), tl.arange(0, D), tl.arange(0, BLOCK)
    q = tl.load(q_ptr + head * D + dims).to(tl.float32)
    mask, keys = offs < n, (head * n + offs)[:, None] * D + dims[None, :]
    k = tl.load(k_ptr + keys, mask=mask[:, None], other=0.0).to(tl.float32)
    scores = tl.where(mask, tl.sum(k * q[None, :], 1) * 0.125, -float("inf"))
    powers = tl.exp(scores - tl.max(scores, 0))
    v = tl.load(v_ptr + keys, mask=mask[:, None], other=0.0).to(tl.float32)
    out = tl.sum(powers[:, None] * v, 0) / tl.sum(powers, 0)
    tl.store(out_ptr + head * D + dims, out)


@CASES.add(
    configs(BLOCK=(128, 256), num_warps=(1, 2, 4, 8)),
    lambda draw: {"q": draw.half(16, 64), "k": draw.half(16, 120, 64), "v": draw.half(16, 120, 64)},
    q=0,
    k=0,
    v=0,
)
def decode_attention(config, q, k, v):
    out = torch.empty(q.shape, device=q.device)
    decode_kernel[(q.shape[0],)](out, q, k, v, k.shape[1], D=q.shape[1], **config)
    return out


@triton.jit
def gate_kernel(weight_ptr, index_ptr, x_ptr, count, E: tl.constexpr, ROWS: tl.constexpr):
    rows, experts = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, E)
    mask = rows < count
    x = tl.load(x_ptr + rows[:, None] * E + experts[None, :], mask=mask[:, None], other=0.0)
    powers = tl.exp(x - tl.max(x, 1)[:, None])
    shares = powers / tl.sum(powers, 1)[:, None]
    tl.store(weight_ptr + rows, tl.max(shares, 1), mask=mask)
    tl.store(index_ptr + rows, tl.argmax(x, 1), mask=mask)


@CASES.add(_TILES, lambda draw: {"x": draw.normal(200, 64)}, x=0)
def expert_gate(config, x):
    rows, experts = x.shape
    weight = torch.empty(rows, device=x.device)
    index = torch.empty(rows, dtype=torch.int32, device=x.device)
    gate_kernel[(_count(rows, config["ROWS"]),)](weight, index, x, rows, E=experts, **config)
    return weight, index


@triton.jit
def gated_quantise_kernel(out_ptr, scale_ptr, x_ptr, n, BLOCK: tl.constexpr):
    row, offs = tl.program_id(0), tl.arange(0, BLOCK)
    top = 1e-10
    for start in range(0, n, BLOCK):
        mask = start + offs < n
        gate = tl.load(x_ptr + row * 2 * n + start + offs, mask=mask, other=0.0)
        up = tl.load(x_ptr + row * 2 * n + n + start + offs, mask=mask, other=0.0)
        top = tl.maximum(top, tl.max(tl.abs(gate * tl.sigmoid(gate) * up), 0))
    scale = top / 127.0
    tl.store(scale_ptr + row, scale)
    for start in range(0, n, BLOCK):
        mask = start + offs < n
        gate = tl.load(x_ptr + row * 2 * n + start + offs, mask=mask, other=0.0)
        up = tl.load(x_ptr + row * 2 * n + n + start + offs, mask=mask, other=0.0)
        q = libdevice.rint(gate * tl.sigmoid(gate) * up / scale).to(tl.int8)
        tl.store(out_ptr + row * n + start + offs, q, mask=mask)


@CASES.add(
    configs(BLOCK=(128, 256, 512), num_warps=(1, 4)), lambda draw: {"x": draw.normal(48, 800)}, x=0
)
def gated_quantise(config, x):
    rows, n = x.shape[0], x.shape[1] // 2
    out = torch.empty(rows, n, dtype=torch.int8, device=x.device)
    scale = torch.empty(rows, device=x.device)
    gated_quantise_kernel[(rows,)](out, scale, x, n, **config)
    return out, scale


@triton.jit
def dequantised_matmul_kernel(
    out_ptr, a_ptr, b_ptr, scale_ptr, bias_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        a_mask, b_mask = (rows < M)[:, None] & (ks < K)[None, :], (ks < K)[:, None]
        a = tl.load(a_ptr + rows[:, None] * K + ks[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + ks[:, None] * N + columns[None, :], mask=b_mask, other=0)
        acc += tl.dot(a, b.to(tl.float16))
    scale, bias = tl.load(scale_ptr + columns), tl.load(bias_ptr + columns)
    out = acc * scale[None, :] + bias[None, :]
    at = rows[:, None] * N + columns[None, :]
    tl.store(out_ptr + at, out, mask=(rows < M)[:, None])


@CASES.add(
    configs(BLOCK_M=(16, 64), BLOCK_N=(32, 64), BLOCK_K=(32, 64), num_warps=(4,)),
    lambda draw: {
        "a": draw.half(80, 96),
        "b": (draw.integers(255, 96, 64) - 127).to(torch.int8),
        "scale": draw.normal(64),
        "bias": draw.normal(64),
    },
    a=0,
)
def dequantised_matmul(config, a, b, scale, bias):
    (m, k), n = a.shape, b.shape[1]
    out = torch.empty(m, n, device=a.device)
    grid = (_count(m, config["BLOCK_M"]), n // config["BLOCK_N"])
    dequantised_matmul_kernel[grid](out, a, b, scale, bias, m, n, k, **config)
    return out


@triton.jit
def affine_matmul_kernel(
    out_ptr, a_ptr, b_ptr, c_ptr, N, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr
):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns, ks = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, BLOCK_K)
    at = rows[:, None] * N + columns[None, :]
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + rows[:, None] * K + (start + ks)[None, :])
        acc += tl.dot(a, tl.load(b_ptr + (start + ks)[:, None] * N + columns[None, :]))
    tl.store(out_ptr + at, acc.to(tl.bfloat16) + tl.load(c_ptr + at))


@CASES.add(
    configs(BLOCK=(16, 32, 64), BLOCK_K=(16, 32), num_warps=(1, 4)),
    lambda draw: {
        "a": draw.normal(64, 128, dtype=torch.bfloat16),
        "b": draw.normal(128, 64, dtype=torch.bfloat16),
        "c": draw.normal(64, 64, dtype=torch.bfloat16),
    },
)
def affine_matmul_bf16(config, a, b, c):
    out, block = torch.empty_like(c), config["BLOCK"]
    grid = (a.shape[0] // block, b.shape[1] // block)
    affine_matmul_kernel[grid](out, a, b, c, b.shape[1], a.shape[1], **config)
    return out


@triton.jit
def split_matmul_kernel(
    out_ptr, a_ptr, b_ptr, N, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT: tl.constexpr
):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns, ks = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(tl.program_id(2) * BLOCK_K, K, BLOCK_K * SPLIT):
        a = tl.load(a_ptr + rows[:, None] * K + (start + ks)[None, :])
        acc = tl.dot(a, tl.load(b_ptr + (start + ks)[:, None] * N + columns[None, :]), acc)
    tl.atomic_add(out_ptr + rows[:, None] * N + columns[None, :], acc)


@CASES.add(
    configs(BLOCK=(32, 64), BLOCK_K=(32,), SPLIT=(4, 8, 16), num_warps=(4,)),
    lambda draw: {"a": draw.half(128, 512), "b": draw.half(512, 128)},
)
def split_matmul(config, a, b):
    m, n, block = a.shape[0], b.shape[1], config["BLOCK"]
    out = torch.zeros(m, n, device=a.device)
    grid = (m // block, n // block, config["SPLIT"])
    split_matmul_kernel[grid](out, a, b, n, a.shape[1], **config)
    return out


@triton.jit
def variance_kernel(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    row, offs = tl.program_id(0), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        total += tl.load(x_ptr + row * n + start + offs, mask=start + offs < n, other=0.0)
    mean = tl.sum(total, 0) / n
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + row * n + start + offs, mask=start + offs < n, other=0.0)
        centred = tl.where(start + offs < n, x - mean, 0.0)
        squares += centred * centred
    tl.store(out_ptr + row, tl.sum(squares, 0) / (n - 1))


@CASES.add(
    configs(BLOCK=(256, 512, 1024), num_warps=(2, 4)),
    lambda draw: {"x": draw.normal(80, 1100)},
    x=0,
)
def variance(config, x):
    out = torch.empty(x.shape[0], device=x.device)
    variance_kernel[(x.shape[0],)](out, x, x.shape[1], **config)
    return out


@triton.jit
def partial_dot_kernel(out_ptr, x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    y = tl.load(y_ptr + offs, mask=offs < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(x * y, 0))


@CASES.add(
    configs(BLOCK=(64, 128, 256), num_warps=(1, 2, 4)),
    lambda draw: {"x": draw.normal(20000), "y": draw.normal(20000)},
)
def dot_product(config, x, y):
    out, n = torch.zeros(1, device=x.device), x.shape[0]
    partial_dot_kernel[(_count(n, config["BLOCK"]),)](out, x, y, n, **config)
    return out


@triton.jit
def histogram_kernel(out_ptr, key_ptr, weight_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + offs, mask=offs < n, other=0)
    weight = tl.load(weight_ptr + offs, mask=offs < n, other=0.0)
    tl.atomic_add(out_ptr + key, weight, mask=offs < n)


@CASES.add(
    configs(BLOCK=(32, 64, 128), num_warps=(1, 2, 4)),
    lambda draw: {"key": draw.integers(16, 6000), "weight": draw.normal(6000)},
)
def weighted_histogram(config, key, weight):
    out, n = torch.zeros(16, device=key.device), key.shape[0]
    histogram_kernel[(_count(n, config["BLOCK"]),)](out, key, weight, n, **config)
    return out


@triton.jit
def count_kernel(out_ptr, key_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + offs, mask=offs < n, other=0)
    tl.atomic_add(out_ptr + key, (offs < n).to(tl.int32))


@CASES.add(
    configs(BLOCK=(128, 256, 512), num_warps=(1, 4)), lambda draw: {"key": draw.integers(9, 3000)}
)
def count_keys(config, key):
    out = torch.zeros(9, dtype=torch.int32, device=key.device)
    count_kernel[(_count(key.shape[0], config["BLOCK"]),)](out, key, key.shape[0], **config)
    return out


@triton.jit
def convolution_kernel(
    out_ptr, x_ptr, weight_ptr, T, D, BLOCK_T: tl.constexpr, BLOCK: tl.constexpr
):
    times = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    dims = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK_T, BLOCK), tl.float32)
    for tap in tl.static_range(4):
        at = times + tap - 3
        mask = (at >= 0)[:, None] & (at < T)[:, None] & (dims < D)[None, :]
        x = tl.load(x_ptr + at[:, None] * D + dims[None, :], mask=mask, other=0.0)
        acc += x * tl.load(weight_ptr + dims * 4 + tap, mask=dims < D, other=0.0)[None, :]
    mask = (times < T)[:, None] & (dims < D)[None, :]
    out = acc * tl.sigmoid(acc)
    tl.store(out_ptr + times[:, None] * D + dims[None, :], out, mask=mask)


@CASES.add(
    configs(BLOCK_T=(8, 16), BLOCK=(32, 64), num_warps=(1, 4)),
    lambda draw: {"x": draw.normal(100, 90), "weight": draw.normal(90, 4)},
)
def causal_convolution(config, x, weight):
    t, d = x.shape
    out, grid = torch.empty_like(x), (_count(t, config["BLOCK_T"]), _count(d, config["BLOCK"]))
    convolution_kernel[grid](out, x, weight, t, d, **config)
    return out


@triton.jit
def log_sum_exp_kernel(out_ptr, x_ptr, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows, offs = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    top = tl.full((ROWS,), -float("inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    for start in range(0, n, BLOCK):
        at = rows[:, None] * n + (start + offs)[None, :]
        x = tl.load(x_ptr + at, mask=(start + offs < n)[None, :], other=-float("inf"))
        new = tl.maximum(top, tl.max(x, 1))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new[:, None]), 1)
        top = new
    tl.store(out_ptr + rows, top + tl.log(total))


@CASES.add(
    configs(ROWS=(1, 2, 4), BLOCK=(128, 256), num_warps=(1, 4)),
    lambda draw: {"x": draw.normal(64, 600)},
)
def log_sum_exp(config, x):
    out, rows = torch.empty(x.shape[0], device=x.device), x.shape[0]
    log_sum_exp_kernel[(rows // config["ROWS"],)](out, x, x.shape[1], **config)
    return out


@triton.jit
def cumulative_kernel(out_ptr, x_ptr, T: tl.constexpr, BLOCK: tl.constexpr):
    times, dims = tl.arange(0, T), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = times[:, None] * 256 + dims[None, :]
    tl.store(out_ptr + at, tl.cumsum(tl.load(x_ptr + at), 0))


@CASES.add(configs(BLOCK=(16, 32, 64), num_warps=(1, 4)), lambda draw: {"x": draw.normal(64, 256)})
def cumulative_sum(config, x):
    out = torch.empty_like(x)
    cumulative_kernel[(256 // config["BLOCK"],)](out, x, T=64, **config)
    return out


@triton.jit
def scores_gradient_kernel(out_ptr, p_ptr, dp_ptr, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows, offs = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    at, mask = rows[:, None] * n + offs[None, :], (offs < n)[None, :]
    p = tl.load(p_ptr + at, mask=mask, other=0.0)
    dp = tl.load(dp_ptr + at, mask=mask, other=0.0)
    delta = tl.sum(p * dp, 1)
    tl.store(out_ptr + at, p * (dp - delta[:, None]), mask=mask)


@CASES.add(
    configs(ROWS=(1, 4), BLOCK=(128, 256), num_warps=(1, 4)),
    lambda draw: {"p": draw.normal(64, 120), "dp": draw.normal(64, 120)},
)
def softmax_gradient(config, p, dp):
    out, (rows, n) = torch.empty_like(p), p.shape
    scores_gradient_kernel[(rows // config["ROWS"],)](out, p, dp, n, **config)
    return out


@triton.jit
def weight_gradient_kernel(
    out_ptr, x_ptr, grad_ptr, rows, D, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    dims = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    own = tl.arange(0, ROWS)
    for start in range(0, rows, ROWS):
        at = (start + own)[:, None] * D + dims[None, :]
        mask = (start + own < rows)[:, None] & (dims < D)[None, :]
        x = tl.load(x_ptr + at, mask=mask, other=0.0)
        acc += tl.sum(x * tl.load(grad_ptr + at, mask=mask, other=0.0), 0)
    tl.store(out_ptr + dims, acc, mask=dims < D)


@CASES.add(
    configs(ROWS=(8, 16, 32), BLOCK=(32, 64), num_warps=(4,)),
    lambda draw: {"x": draw.normal(200, 300), "grad": draw.normal(200, 300)},
)
def weight_gradient(config, x, grad):
    rows, d = x.shape
    out = torch.empty(d, device=x.device)
    weight_gradient_kernel[(_count(d, config["BLOCK"]),)](out, x, grad, rows, d, **config)
    return out


@triton.jit
def causal_attention_kernel(
    out_ptr, q_ptr, k_ptr, v_ptr, n, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK: tl.constexpr
):
    head, rows = tl.program_id(1), tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims, offs = tl.arange(0, D), tl.arange(0, BLOCK)
    own = head * n * D + rows[:, None] * D + dims[None, :]
    q = tl.load(q_ptr + own)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    m = tl.full((BLOCK_M,), -1e30, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BLOCK_M, BLOCK):
        keys = head * n * D + (start + offs) * D
        k = tl.load(k_ptr + keys[None, :] + dims[:, None])
        later = (start + offs)[None, :] > rows[:, None]
        scores = tl.where(later, -1e30, tl.dot(q, k) * 0.18)
        new_m = tl.maximum(m, tl.max(scores, 1))
        p = tl.exp2(scores - new_m[:, None])
        scale = tl.exp2(m - new_m)
        total = total * scale + tl.sum(p, 1)
        v = tl.load(v_ptr + keys[:, None] + dims[None, :])
        acc = acc * scale[:, None] + tl.dot(p.to(tl.bfloat16), v)
        m = new_m
    tl.store(out_ptr + own, (acc / total[:, None]).to(tl.bfloat16))


@CASES.add(
    configs(BLOCK_M=(32, 64), BLOCK=(32, 64), num_warps=(2, 4)),
    lambda draw: {name: draw.normal(4, 128, 64, dtype=torch.bfloat16) for name in ("q", "k", "v")},
    q=0,
    k=0,
    v=0,
)
def causal_attention(config, q, k, v):
    heads, n, d = q.shape
    out, grid = torch.empty_like(q), (n // config["BLOCK_M"], heads)
    causal_attention_kernel[grid](out, q, k, v, n, D=d, **config)
    return out


@triton.jit
def update_kernel(w_ptr, m_ptr, grad_ptr, count, rate, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < count
    grad = tl.load(grad_ptr + offs, mask=mask)
    m = tl.load(m_ptr + offs, mask=mask)
    m = tl.where(grad * m > 0, m * 0.75, grad)
    tl.store(m_ptr + offs, m, mask=mask)
    tl.store(w_ptr + offs, tl.load(w_ptr + offs, mask=mask) - rate * m, mask=mask)


@CASES.add(
    configs(BLOCK=(128, 512, 1024), num_warps=(1, 4)),
    lambda draw: {name: draw.normal(5000) for name in ("w", "m", "grad")},
)
def momentum_update(config, w, m, grad):
    count = w.numel()
    update_kernel[(_count(count, config["BLOCK"]),)](w, m, grad, count, 0.01, **config)
    return w, m
