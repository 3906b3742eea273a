"""Defects in indices from tables and arithmetic: routing, packed weights, look-back."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy, clean

# mypy: disable-error-code="no-untyped-def"


@triton.jit
def grouped_rows(a_ptr, ids_ptr, experts_ptr, b_ptr, o_ptr, valid, padded, TOP: tl.constexpr,
                 FIXED: tl.constexpr, K: tl.constexpr, B: tl.constexpr):  # fmt: skip
    block = tl.program_id(0)
    if block * B >= padded:
        return
    slot = tl.load(ids_ptr + block * B + tl.arange(0, B))
    k = tl.arange(0, K)
    inside = slot < (valid if FIXED else padded)
    rows = a_ptr + (slot // TOP)[:, None] * K + k[None, :]
    a = tl.load(rows, mask=inside[:, None], other=0.0)  # BUG: oob_load
    expert = tl.load(experts_ptr + block)
    w = tl.load(b_ptr + expert * K + k)
    tl.store(o_ptr + slot, tl.sum(a * w[None, :], 1), mask=slot < valid)


@buggy("oob_load", "a_ptr")
def padding_slots_of_experts_are_rows(fixed: bool) -> None:
    tokens, top, b, k = 6, 2, 4, 16
    valid = tokens * top
    ids = torch.full((16,), valid, dtype=torch.int32)
    ids[torch.tensor([0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 12, 13])] = torch.arange(12, dtype=torch.int32)
    experts = torch.tensor([0, 1, 1, 2], dtype=torch.int32)
    grouped_rows[(4,)](
        torch.rand(tokens, k),
        ids,
        experts,
        torch.rand(3, k),
        torch.zeros(valid),
        valid,
        16,
        TOP=top,
        FIXED=fixed,
        K=k,
        B=b,
    )


@triton.jit
def ring_before(x_ptr, o_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    place = (i - 1 + n) % n if FIXED else (i - 1) % n
    tl.store(o_ptr + i, tl.load(x_ptr + place, mask=i < n, other=0.0), mask=i < n)  # BUG: oob_load


@buggy("oob_load", "x_ptr")
def remainders_of_negative_numbers_are_negative(fixed: bool) -> None:
    ring_before[(1,)](torch.rand(20), torch.empty(20), 20, FIXED=fixed, B=32)


@triton.jit
def add64(count_ptr, FIXED: tl.constexpr):
    p = (
        count_ptr
        if FIXED
        else (count_ptr.to(tl.pointer_type(tl.int8)) + 4).to(tl.pointer_type(tl.int64))
    )
    tl.atomic_add(p, 1)  # BUG: misaligned


@buggy("misaligned", "count_ptr")
def a_counter_lies_between_words(fixed: bool) -> None:
    add64[(2,)](torch.zeros(4, dtype=torch.int64), FIXED=fixed)


@triton.jit
def radix(keys_ptr, base_ptr, o_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    key = tl.load(keys_ptr + i, mask=i < n, other=0)
    bin = key & 3
    rank = tl.zeros((B,), tl.int32)
    for b in tl.static_range(4):
        one = ((bin == b) & (i < n)).to(tl.int32)
        rank = tl.where(bin == b, tl.cumsum(one, 0) - (1 if FIXED else 0), rank)
    start = tl.load(base_ptr + tl.program_id(0) * 4 + bin)
    tl.store(o_ptr + start + rank, key, mask=i < n)  # BUG: oob_store


@buggy("oob_store", "o_ptr", also={"overlapping_store", "race"})
def ranks_are_counted_inclusively(fixed: bool) -> None:
    keys = torch.randint(0, 4, (64,), dtype=torch.int32)
    counts = torch.stack([torch.bincount(part, minlength=4) for part in keys.view(2, 32)])
    flat = counts.t().reshape(-1)
    base = (torch.cumsum(flat, 0) - flat).view(4, 2).t().contiguous().int()
    radix[(2,)](keys, base, torch.zeros(64, dtype=torch.int32), 64, FIXED=fixed, B=32)


@triton.jit
def stream_k(x_ptr, part_ptr, flag_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    program = tl.program_id(0)
    i = tl.arange(0, B)
    total = tl.load(x_ptr + program * B + i)
    if program % 2 == 1:
        tl.store(part_ptr + program // 2 * B + i, total)  # BUG: race
        tl.debug_barrier()
        tl.atomic_xchg(flag_ptr + program // 2, 1, sem="release")
    else:
        if FIXED:
            while tl.atomic_add(flag_ptr + program // 2, 0, sem="acquire") == 0:
                pass
        other = tl.load(part_ptr + program // 2 * B + i)  # BUG: race
        tl.store(o_ptr + program // 2 * B + i, total + other)


@buggy("race", "part_ptr")
def tile_is_finished_without_waiting_for_the_other_part(fixed: bool) -> None:
    flags = torch.zeros(2, dtype=torch.int32)
    stream_k[(4,)](torch.rand(64), torch.zeros(32), flags, torch.empty(32), FIXED=fixed, B=16)


@triton.jit
def unpack_words(q_ptr, s_ptr, o_ptr, columns, GROUP: tl.constexpr, FIXED: tl.constexpr,
                 K: tl.constexpr, N: tl.constexpr):  # fmt: skip
    k, n = tl.arange(0, K), tl.arange(0, N)
    word = tl.load(q_ptr + (k // 8)[:, None] * columns + n[None, :])
    q = (word >> ((k % 8) * 4)[:, None]) & 15
    group = k // GROUP if FIXED else k // 8
    s = tl.load(s_ptr + group[:, None] * columns + n[None, :])  # BUG: oob_load
    tl.store(o_ptr + k[:, None] * columns + n[None, :], (q - 8) * s)


@buggy("oob_load", "s_ptr")
def scales_are_indexed_by_word_instead_of_group(fixed: bool) -> None:
    q = torch.randint(0, 2**31 - 1, (8, 16), dtype=torch.int32)
    unpack_words[(1,)](
        q, torch.rand(2, 16), torch.empty(64, 16), 16, GROUP=32, FIXED=fixed, K=64, N=16
    )


@triton.jit
def heads_of(x_ptr, o_ptr, stride_b, stride_h, heads, FIXED: tl.constexpr, D: tl.constexpr):
    batch, head = tl.program_id(0), tl.program_id(1)
    d = tl.arange(0, D)
    base = batch * stride_b + head * stride_h if FIXED else (batch * heads + head) * stride_h
    tl.store(o_ptr + (batch * heads + head) * D + d, tl.load(x_ptr + base + d))  # BUG: view_oob


@buggy("view_oob", "x_ptr")
def queries_of_a_packed_projection(fixed: bool) -> None:
    qkv = torch.rand(2, 3, 4, 16)
    q = qkv[:, 0]
    heads_of[(2, 4)](q, torch.empty(2, 4, 16), *q.stride()[:2], 4, FIXED=fixed, D=16)


@triton.jit
def look_back(x_ptr, state_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    x = tl.load(x_ptr + p * B + tl.arange(0, B))
    total = tl.sum(x, 0).to(tl.int32).to(tl.int64)
    packed = (tl.full((), 1, tl.int64) << 32) | total
    if p == 0:
        tl.atomic_xchg(state_ptr, packed, sem="release")
        before = total * 0
    else:
        word = tl.atomic_add(state_ptr + p - 1, 0, sem="acquire")
        while (word >> 32) == 0:  # BUG: deadlock
            word = tl.atomic_add(state_ptr + p - 1, 0, sem="acquire")
        before = word & 0xFFFFFFFF
        if FIXED or p == 1:
            tl.atomic_xchg(state_ptr + p, packed + before, sem="release")
    tl.store(o_ptr + p, before)


@clean
def words_carry_value_and_flag() -> None:
    look_back[(6,)](
        torch.ones(6 * 16),
        torch.zeros(6, dtype=torch.int64),
        torch.zeros(6, dtype=torch.int64),
        FIXED=True,
        B=16,
    )


@buggy("deadlock", "state_ptr")
def a_prefix_is_not_passed_on(fixed: bool) -> None:
    state = torch.zeros(4, dtype=torch.int64)
    look_back[(4,)](torch.ones(64), state, torch.zeros_like(state), FIXED=fixed, B=16)
