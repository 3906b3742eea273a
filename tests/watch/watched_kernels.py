"""Kernels to watch, and the line numbers of their statements."""

from __future__ import annotations

import inspect
from typing import Any

import triton
import triton.language as tl


@triton.jit
def scaled(values, factor):
    product = values * factor
    return product + 1.0


@triton.jit
def early(value):
    doubled = value * 2
    if doubled > 10:
        return doubled
    return doubled + 100


@triton.jit
def accumulate(out_ptr, x_ptr, n, steps, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    inside = offs < n
    acc = tl.zeros((BLOCK,), tl.float32)
    ptrs = x_ptr + offs
    for i in range(steps):
        x = tl.load(ptrs, mask=inside)
        acc += scaled(x, 2.0)
        ptrs += BLOCK
        if i > 1:
            acc = acc * 0.5
    total = tl.sum(acc)
    tl.store(out_ptr + offs, acc + total, mask=inside)


@triton.jit
def narrow(out_ptr, x_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    brain = x.to(tl.bfloat16)
    eighth = x.to(tl.float8e5)
    half = x.to(tl.float16)
    whole = x.to(tl.int8)
    odd = (whole & 1) == 1
    wide = whole.to(tl.int64) * 1000000007
    back = brain.to(tl.float32) + eighth.to(tl.float32) + half.to(tl.float32)
    tl.store(out_ptr + offs, tl.where(odd, back, wide.to(tl.float32)))


@triton.jit
def unrolled(out_ptr, x_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    acc = tl.load(x_ptr + offs)
    for i in tl.static_range(3):
        more = tl.load(x_ptr + offs + i)
        acc += more
    count = 0
    bound = tl.max(acc, axis=0)
    while bound > 1.0:
        bound = bound * 0.5
        count += 1
    tl.store(out_ptr + offs, acc + count + early(bound))


@triton.jit
def product(out_ptr, a_ptr, b_ptr, K, N: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.arange(0, N)
    ks = tl.arange(0, BLOCK)
    acc = tl.zeros((N, N), tl.float32)
    for k in range(0, K, BLOCK):
        a = tl.load(a_ptr + rows[:, None] * K + (k + ks)[None, :])
        b = tl.load(b_ptr + (k + ks)[:, None] * N + rows[None, :])
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(out_ptr + rows[:, None] * N + rows[None, :], acc)


def line_of(kernel: Any, statement: str) -> int:
    """Return the line number of a statement of a kernel in this file."""
    lines, first = inspect.getsourcelines(kernel.fn)
    return next(first + n for n, line in enumerate(lines) if statement in line)
