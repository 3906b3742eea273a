"""Candidates that double numbers: a correct one, and others whose values may be right."""

import numpy
import torch
import triton
import triton.language as tl


def inputs(N, dtype, seed):
    return {"x": torch.randn(N, generator=torch.Generator().manual_seed(seed)).to(dtype)}


def reference(x):
    return x * 2


@triton.jit
def double_kernel(x_ptr, o_ptr, n, s, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i * s, mask=i < n)
    tl.store(o_ptr + i, x * 2, mask=i < n)


def right(x):
    out = torch.empty(x.numel(), dtype=x.dtype)
    double_kernel[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), x.stride(0), BLOCK=16)
    return out


@triton.jit
def outside_kernel(x_ptr, o_ptr, n, s, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.where(i < n, tl.load(x_ptr + i * s), 0.0)
    tl.store(o_ptr + i, x * 2, mask=i < n)


def reads_outside(x):
    out = torch.empty(x.numel(), dtype=x.dtype)
    outside_kernel[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), x.stride(0), BLOCK=16)
    return out


@triton.jit
def racing_kernel(x_ptr, o_ptr, n, s, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i * s, mask=i < n)
    tl.store(o_ptr + i, tl.load(o_ptr + i, mask=i < n) + x, mask=i < n)


def races(x):
    out = torch.zeros(x.numel(), dtype=x.dtype)
    racing_kernel[(2,)](x, out, x.numel(), x.stride(0), BLOCK=32)
    return out


def asks_torch(x):
    right(x)
    return x.add(x)


def needs_no_kernel(x):
    right(x)
    return torch.from_numpy(numpy.asarray(x) * 2)


def writes_beside(x):
    x.as_strided((x.numel() * x.stride(0),), (1,))[1] = 7
    return right(x)


@triton.jit
def first_kernel(x_ptr, o_ptr, n, s, BLOCK: tl.constexpr):
    total = tl.load(o_ptr)
    tl.store(o_ptr, tl.load(x_ptr + tl.program_id(0) * s) * 2 + total * 0)
    tl.store(o_ptr + 1 + tl.program_id(0), tl.load(x_ptr + tl.program_id(0) * s) * 2)


def last_wins(x):
    out = torch.zeros(x.numel() + 1, dtype=x.dtype)
    first_kernel[(x.numel(),)](x, out, x.numel(), x.stride(0), BLOCK=16)
    return torch.cat([out[:1], out[2:]])


def puts_back(x):
    x.add_(1).sub_(1)
    return right(x)
