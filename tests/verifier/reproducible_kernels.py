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
    """Divide rows into more parts if there are few of them."""
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
