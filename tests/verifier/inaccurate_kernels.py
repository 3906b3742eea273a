"""Candidates that are wrong because of rounding errors, and one with another defect."""

import torch
import triton
import triton.language as tl

DOMAIN = {"M": (300, 400), "dtype": ["bfloat16"]}
COLUMNS = tl.constexpr(8)


def inputs(M, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    x = 0.24 * torch.rand(M, 8, generator=generator)
    x[0] = 100.0  # half the spacing of bfloat16 at 100 is more than each of the other elements
    return {"x": x.to(getattr(torch, dtype))}


def reference(x):
    return x.float().sum(0).sqrt().to(x.dtype)


@triton.jit
def narrow_kernel(x_ptr, o_ptr, rows):
    d = tl.arange(0, COLUMNS)
    acc = tl.zeros([COLUMNS], tl.bfloat16)
    for i in range(rows):
        acc += tl.load(x_ptr + i * COLUMNS + d)  # narrow_sum
    tl.store(o_ptr + d, tl.sqrt(acc.to(tl.float32)))


def narrow_sum(x):
    out = torch.empty(8, dtype=x.dtype)
    narrow_kernel[(1,)](x.contiguous(), out, x.shape[0])
    return out


@triton.jit
def sum_kernel(x_ptr, o_ptr, rows, factor):
    d = tl.arange(0, COLUMNS)
    acc = tl.zeros([COLUMNS], tl.float32)
    for i in range(rows):
        acc += tl.load(x_ptr + i * COLUMNS + d)
    tl.store(o_ptr + d, (acc * factor).to(o_ptr.dtype.element_ty))  # through_a_narrow_tensor


@triton.jit
def root_kernel(x_ptr, o_ptr, factor):
    d = tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + d).to(tl.float32) * factor
    tl.store(o_ptr + d, tl.sqrt(x))


def scaled_sum(x):
    total, out = torch.empty(8, dtype=torch.float32), torch.empty(8, dtype=x.dtype)
    sum_kernel[(1,)](x.contiguous(), total, x.shape[0], 1.0)
    root_kernel[(1,)](total, out, 1.2)
    return out


def through_a_narrow_tensor(x):
    total, out = torch.empty(8, dtype=torch.float16), torch.empty(8, dtype=x.dtype)
    sum_kernel[(1,)](x.contiguous(), total, x.shape[0], 1e-9)
    root_kernel[(1,)](total, out, 1e9)
    return out
