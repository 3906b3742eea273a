"""Correct synchronisation and updates by atomics in uncommon forms."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import clean


@triton.jit
def packed_look_back(x_ptr, state_ptr, o_ptr, n, B: tl.constexpr):
    p = tl.program_id(0)
    i = p * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    total = tl.sum(x, axis=0).to(tl.int64)
    # The lower two bits are 1 for the sum of this program and 2 for the sum of all up to it.
    tl.atomic_xchg(state_ptr + p, (total << 2) | 1)
    before = tl.zeros((), tl.int64)
    j = p - 1
    while j >= 0:
        state = tl.atomic_add(state_ptr + j, 0)
        while (state & 3) == 0:
            state = tl.atomic_add(state_ptr + j, 0)
        before += state >> 2
        j = -1 if (state & 3) == 2 else j - 1
    tl.atomic_xchg(state_ptr + p, ((total + before) << 2) | 2)
    tl.store(o_ptr + i, tl.cumsum(x, axis=0) + before, mask=i < n)


@clean
def prefix_sum_with_sums_in_their_flags() -> None:
    x, o = torch.arange(60, dtype=torch.int32), torch.empty(60, dtype=torch.int64)
    packed_look_back[(4,)](x, torch.zeros(4, dtype=torch.int64), o, 60, B=16)
    assert torch.equal(o, x.cumsum(0))


@triton.jit
def add_by_swapping(x_ptr, o_ptr):
    x = tl.load(x_ptr + tl.program_id(0))
    word = o_ptr.to(tl.pointer_type(tl.int32))
    old = tl.atomic_add(word, 0)
    again = 1
    while again == 1:
        new = (old.to(tl.float32, bitcast=True) + x).to(tl.int32, bitcast=True)
        seen = tl.atomic_cas(word, old, new)
        again = 0 if seen == old else 1
        old = seen


@clean
def floats_are_added_by_compare_and_swap() -> None:
    x, o = torch.rand(6), torch.zeros(1)
    add_by_swapping[(6,)](x, o)
    torch.testing.assert_close(o[0], x.sum())


@triton.jit
def two_levels(x_ptr, part_ptr, n_ptr, o_ptr, P: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    tl.store(part_ptr + p * B + i, tl.load(x_ptr + p * B + i))
    tl.debug_barrier()
    if tl.atomic_add(n_ptr + 1 + p // 2, 1) == 1:
        pairs = tl.atomic_add(n_ptr, 1)
        if pairs == P // 2 - 1:
            total = tl.zeros((B,), tl.float32)
            for k in range(P):
                total += tl.load(part_ptr + k * B + i)
            tl.store(o_ptr + i, total)


@clean
def tree_of_counters() -> None:
    x, o = torch.rand(8, 16), torch.empty(16)
    counters = torch.zeros(5, dtype=torch.int32)
    two_levels[(8,)](x, torch.empty(8, 16), counters, o, P=8, B=16)
    torch.testing.assert_close(o, x.sum(0))
