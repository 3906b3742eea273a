"""Three implementations of a row-wise softmax, and two that are wrong."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

DOMAIN = {"rows": (1, 4096), "columns": (1, 4096), "dtype": [torch.float32, torch.float16]}


def inputs(rows, columns, dtype, seed=0, negative=False, differentiable=False):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, columns, generator=generator).to(dtype)
    return {"x": (-x.abs() if negative else x).requires_grad_(differentiable)}


@triton.jit
def softmax_kernel(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + columns, mask=columns < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * n + columns, (e / tl.sum(e, 0)).to(y.dtype.element_ty), mask=columns < n)


def by_kernel(x):
    y = torch.empty_like(x)
    n = x.shape[1]
    softmax_kernel[(x.shape[0],)](x, y, n, BLOCK=triton.next_power_of_2(n))
    return y


@triton.jit
def softmax_backward_kernel(y, dy, dx, n, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    at = tl.program_id(0) * n + columns
    out = tl.load(y + at, mask=columns < n, other=0.0).to(tl.float32)
    given = tl.load(dy + at, mask=columns < n, other=0.0).to(tl.float32)
    found = out * (given - tl.sum(out * given, 0))
    tl.store(dx + at, found.to(dx.dtype.element_ty), mask=columns < n)


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = by_kernel(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        dx = torch.empty_like(y)
        n = y.shape[1]
        block = triton.next_power_of_2(n)
        softmax_backward_kernel[(y.shape[0],)](y, dy.contiguous(), dx, n, BLOCK=block)
        return dx


def with_gradients(x):
    return Softmax.apply(x)


def in_place(x):
    x.copy_(by_kernel(x))


def by_torch(x):
    return torch.softmax(x.float(), 1).to(x.dtype)


def failing(x):
    if x.shape[1] > 20:
        raise MemoryError("too many columns\nand a second line")
    return by_torch(x)


def one_row(x):
    return by_torch(x)[:1]
