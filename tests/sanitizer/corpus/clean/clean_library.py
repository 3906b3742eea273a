"""Correct idioms of libraries that look like defects."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import clean

# mypy: disable-error-code="no-untyped-def"


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, B: tl.constexpr):
    rm, rn = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    # Rows that wrap around break these hints, but nothing that is loaded from them is stored.
    ram = tl.max_contiguous(tl.multiple_of(rm % M, B), B)
    rbn = tl.max_contiguous(tl.multiple_of(rn % N, B), B)
    rk = tl.arange(0, B)
    a_ptr += ram[:, None] * K + rk[None, :]
    b_ptr += rk[:, None] * N + rbn[None, :]
    acc = tl.zeros((B, B), tl.float32)
    for k in range(K, 0, -B):
        a = tl.load(a_ptr, mask=rk[None, :] < k, other=0.0)
        b = tl.load(b_ptr, mask=rk[:, None] < k, other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
        a_ptr += B
        b_ptr += B * N
    inside = (rm < M)[:, None] & (rn < N)[None, :]
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=inside)


@clean
def hints_about_rows_that_wrap_around() -> None:
    a, b, c = torch.rand(40, 24), torch.rand(24, 50), torch.empty(40, 50)
    product[(3, 4)](a, b, c, 40, 50, 24, B=16)
    assert torch.allclose(c, a @ b, atol=1e-4)


@triton.jit
def cross_entropy(x_ptr, label_ptr, o_ptr, n, B: tl.constexpr):
    row = x_ptr + tl.program_id(0) * n
    label = tl.load(label_ptr + tl.program_id(0))
    if label == -100:
        for first in range(0, n, B):
            i = first + tl.arange(0, B)
            tl.store(row + i, 0.0, mask=i < n)
        return
    top, total = float("-inf"), 0.0
    chosen = tl.load(row + label)
    for first in range(0, n, B):
        i = first + tl.arange(0, B)
        x = tl.load(row + i, mask=i < n, other=float("-inf"))
        new = tl.maximum(top, tl.max(x))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new))
        top = new
    for first in range(0, n, B):
        i = first + tl.arange(0, B)
        x = tl.load(row + i, mask=i < n, other=float("-inf"))
        tl.store(row + i, tl.exp(x - top) / total - tl.where(i == label, 1.0, 0.0), mask=i < n)
    tl.store(o_ptr + tl.program_id(0), top + tl.log(total) - chosen)


@clean
def gradients_overwrite_logits() -> None:
    x, labels = torch.rand(4, 37), torch.tensor([3, -100, 36, 0])
    expected = torch.nn.functional.cross_entropy(x, labels, reduction="none")
    loss = torch.zeros(4)
    cross_entropy[(4,)](x, labels, loss, 37, B=16)
    assert torch.allclose(loss, expected, atol=1e-4)


@triton.jit
def store_splits(x_ptr, part_ptr, len_ptr, S: tl.constexpr, B: tl.constexpr):
    row, split = tl.program_id(0), tl.program_id(1)
    n = tl.load(len_ptr + row)
    each = tl.cdiv(n, S)
    first, end = each * split, tl.minimum(each * (split + 1), n)
    if end > first:
        i = first + tl.arange(0, B)
        x = tl.load(x_ptr + row * 32 + i, mask=i < end, other=0.0)
        tl.store(part_ptr + row * S + split, tl.sum(x, 0))


@triton.jit
def join_splits(part_ptr, len_ptr, o_ptr, S: tl.constexpr):
    row = tl.program_id(0)
    n = tl.load(len_ptr + row)
    total = 0.0
    for split in range(S):
        each = tl.cdiv(n, S)
        if tl.minimum(each * (split + 1), n) > each * split:
            total += tl.load(part_ptr + row * S + split)
    tl.store(o_ptr + row, total)


@clean
def empty_splits_are_left_out() -> None:
    x, lengths = torch.rand(3, 32), torch.tensor([1, 32, 13], dtype=torch.int32)
    parts, o = torch.empty(3, 4), torch.empty(3)
    store_splits[(3, 4)](x, parts, lengths, S=4, B=8)
    join_splits[(3,)](parts, lengths, o, S=4)
    expected = torch.stack([x[row, :n].sum() for row, n in enumerate(lengths.tolist())])
    assert torch.allclose(o, expected, atol=1e-4)


@triton.jit
def unpack(w_ptr, o_ptr, n, B: tl.constexpr):
    i, j = tl.arange(0, B), tl.arange(0, 2 * B)
    w = tl.load(w_ptr + i, mask=i < n)
    tl.store(o_ptr + j, tl.interleave(w & 15, w >> 4), mask=j < 2 * n)


@clean
def undefined_lanes_are_interleaved() -> None:
    w, o = torch.randint(0, 255, (10,), dtype=torch.uint8), torch.empty(20, dtype=torch.uint8)
    unpack[(1,)](w, o, 10, B=16)
    assert torch.equal(o, torch.stack([w & 15, w >> 4], 1).flatten())
