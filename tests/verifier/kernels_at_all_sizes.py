"""Candidates that are correct at sizes that fit in memory, some of them wrong at larger sizes."""

import torch
import triton
import triton.language as tl

DOMAIN = {"n": (1, 1 << 33), "dtype": ["float32", "float16"]}


def inputs(n, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(n, generator=generator).to(getattr(torch, dtype))}


def reference(x):
    return 2 * x


@triton.jit
def double_kernel(x_ptr, y_ptr, n, stride, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0)
    if WIDE:
        first = first.to(tl.int64)
    at = first * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at * stride, mask=at < n)
    tl.store(y_ptr + at, 2 * x, mask=at < n)


def doubled(x, wide, width=1024):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(x.numel(), width),)
    double_kernel[grid](x, y, x.numel(), x.stride(0), WIDE=wide, BLOCK=1024)
    return y


def wraps(x):
    return doubled(x, wide=False)


def wide(x):
    return doubled(x, wide=True)


def asks_for_a_value(x):
    return doubled(x, wide=bool(x[0] != 0) or True)


def leaves_memory_from_some_size_on(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    limit = x.numel() + (1 if x.numel() > 5_000_000 else 0)
    double_kernel[(triton.cdiv(limit, 1024),)](x, y, limit, x.stride(0), WIDE=True, BLOCK=1024)
    return y


def asks_for_cuda(x):
    assert x.is_cuda, "the kernel is for CUDA"
    return doubled(x, wide=True)
