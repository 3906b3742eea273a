"""Functions whose results have equal bits, or not, for `ttools reproduce`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

DOMAIN = {"rows": (1, 8), "n": (1, 512)}


def inputs(rows, n, seed=0):
    return {"x": torch.randn(rows, n, generator=torch.Generator().manual_seed(seed))}


@triton.jit
def softmax_kernel(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    start = tl.program_id(0) * n
    x = tl.load(x_ptr + start + offs, mask=offs < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + start + offs, e / tl.sum(e, 0), mask=offs < n)


def softmax(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](out, x, x.shape[1], BLOCK=128)
    return out


@triton.jit
def part_kernel(out_ptr, x_ptr, n, length, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    start = tl.program_id(1) * length
    x = tl.load(x_ptr + tl.program_id(0) * n + start + offs, mask=offs < length, other=0.0)
    tl.atomic_add(out_ptr + tl.program_id(0), tl.sum(x, 0))


def split_by_batch(x):
    """Divide rows into more parts if there are few rows."""
    rows, n = x.shape
    out = torch.zeros(rows)
    parts = 2 if rows == 1 else 1
    part_kernel[(rows, parts)](out, x, n, n // parts, BLOCK=128)
    return out


def four_parts(x):
    rows, n = x.shape
    out = torch.zeros(rows)
    part_kernel[(rows, 4)](out, x, n, n // 4, BLOCK=128)
    return out


SUM_CONFIGS = [
    triton.Config({"BLOCK": 128}, num_warps=1),
    triton.Config({"BLOCK": 128}, num_warps=1, num_stages=2),
    triton.Config({"BLOCK": 128}, num_warps=4),
]


@triton.autotune(configs=SUM_CONFIGS, key=["n"])
@triton.jit
def sum_kernel(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + offs, mask=offs < n, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x, 0))


def sums(x):
    out = torch.empty(x.shape[0])
    sum_kernel[(x.shape[0],)](out, x, x.shape[1])
    return out


PRODUCT_CONFIGS = [triton.Config({"BLOCK_K": k}, num_warps=4) for k in (16, 32)]


@triton.autotune(configs=PRODUCT_CONFIGS, key=["K"])
@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, K, BLOCK_K: tl.constexpr):
    rows, ks = tl.arange(0, 16), tl.arange(0, BLOCK_K)
    total = tl.zeros((16, 16), tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + rows[:, None] * K + (k + ks)[None, :])
        b = tl.load(b_ptr + (k + ks)[:, None] * 16 + rows[None, :])
        total += tl.dot(a, b)
    tl.store(c_ptr + rows[:, None] * 16 + rows[None, :], total)


def product(a, b):
    c = torch.empty(16, 16)
    product_kernel[(1,)](a, b, c, a.shape[1])
    return c


@triton.jit
def scan_kernel(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    start = tl.program_id(0) * n
    x = tl.load(x_ptr + start + offs, mask=offs < n, other=0.0)
    tl.store(out_ptr + start + offs, tl.cumsum(x, 0), mask=offs < n)


def scan(x):
    out = torch.empty_like(x)
    scan_kernel[(x.shape[0],)](out, x, x.shape[1], BLOCK=128)
    return out


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def own_sum_kernel(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + offs, mask=offs < n, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.reduce(x, 0, add))


def own_sum(x):
    out = torch.empty(x.shape[0])
    own_sum_kernel[(x.shape[0],)](out, x, x.shape[1], BLOCK=128)
    return out


def normalised_by_torch(x):
    return softmax(softmax(x) * 2.0)


def whole_sum(x):
    return softmax(x).sum()


WIDTHS = [triton.Config({"BLOCK": block}, num_warps=4) for block in (128, 256)]


@triton.autotune(configs=WIDTHS, key=["n"])
@triton.jit
def affine_kernel(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, x * 1.7 + 0.3, mask=offs < n)


def affine(x):
    out = torch.empty_like(x)
    grid = lambda config: (triton.cdiv(x.numel(), config["BLOCK"]),)  # noqa: E731
    affine_kernel[grid](out, x, x.numel())
    return out


@triton.autotune(configs=WIDTHS, key=["n"])
@triton.jit
def two_products_kernel(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    y = tl.load(x_ptr + n - 1 - offs, mask=offs < n)
    tl.store(out_ptr + offs, x * y + x * 1.7, mask=offs < n)


def two_products(x):
    out = torch.empty_like(x)
    grid = lambda config: (triton.cdiv(x.numel(), config["BLOCK"]),)  # noqa: E731
    two_products_kernel[grid](out, x, x.numel())
    return out


@triton.jit
def loop_kernel(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    rows, offs = tl.program_id(0) * 2 + tl.arange(0, 2), tl.arange(0, BLOCK)
    total = tl.zeros((2,), tl.float32)
    for start in range(0, n, BLOCK):
        total += tl.sum(tl.load(x_ptr + rows[:, None] * n + (start + offs)[None, :]), 1)
    tl.store(out_ptr + rows, total)


def sums_in_a_loop(x):
    out = torch.empty(x.shape[0])
    loop_kernel[(x.shape[0] // 2,)](out, x, x.shape[1], BLOCK=128)
    return out


PADDED = [
    triton.Config({"BLOCK": 512}, num_warps=1),
    triton.Config({"BLOCK": 1024}, num_warps=1),
]


@triton.autotune(configs=PADDED, key=["n"])
@triton.jit
def padded_kernel(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    row, offs = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + offs, mask=offs < n, other=-float("inf"))
    powers = tl.exp(x - tl.max(x, 0))
    half = powers.to(tl.float16).to(tl.float32)
    tl.store(out_ptr + 2 * row, tl.sum(half, 0) / tl.sum(powers, 0))
    tl.store(out_ptr + 2 * row + 1, tl.max(powers, 0))


def padded(x):
    out = torch.empty(x.shape[0], 2)
    padded_kernel[(x.shape[0],)](out, x, x.shape[1])
    return out


@triton.autotune(configs=SUM_CONFIGS, key=["n"])
@triton.jit
def count_kernel(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + tl.program_id(0) * n + start + offs, mask=start + offs < n, other=0.0)
        total += (x > 0.5).to(tl.float32)
    tl.store(out_ptr + tl.program_id(0), tl.sum(total, 0))


def counts(x):
    out = torch.empty(x.shape[0])
    count_kernel[(x.shape[0],)](out, x, x.shape[1])
    return out


@triton.jit
def attention_kernel(out_ptr, q_ptr, k_ptr, v_ptr, n, D: tl.constexpr, BLOCK: tl.constexpr):
    head, rows = tl.program_id(0), tl.arange(0, 16)
    dims, offs = tl.arange(0, D), tl.arange(0, BLOCK)
    own = head * 16 * D + rows[:, None] * D + dims[None, :]
    q = tl.load(q_ptr + own)
    acc = tl.zeros((16, D), tl.float32)
    m = tl.full((16,), -float("inf"), tl.float32)
    total = tl.zeros((16,), tl.float32)
    for start in range(0, n, BLOCK):
        keys = head * n * D + (start + offs) * D
        k = tl.load(k_ptr + keys[None, :] + dims[:, None])
        scores = tl.dot(q, k)
        new_m = tl.maximum(m, tl.max(scores, 1))
        p = tl.exp2(scores - new_m[:, None])
        scale = tl.exp2(m - new_m)
        total = total * scale + tl.sum(p, 1)
        v = tl.load(v_ptr + keys[:, None] + dims[None, :])
        acc = tl.dot(p.to(tl.float16), v, acc * scale[:, None])
        m = new_m
    tl.store(out_ptr + own, acc / total[:, None])


def attention(q, k, v):
    out = torch.empty(q.shape)
    attention_kernel[(q.shape[0],)](out, q, k, v, k.shape[1], D=32, BLOCK=32)
    return out
