"""Programs whose synchronisation does not order all accesses that need it."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy


def words(count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int32)


@triton.jit
def add_remainders(x_ptr, o_ptr, first_ptr, WAITS: tl.constexpr, P: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    x = tl.load(x_ptr + p * B + i)
    at = o_ptr + p // P * B + i
    if p % P == 0:
        tl.store(at, x)  # BUG: race
        tl.debug_barrier()
        tl.atomic_xchg(first_ptr + p // P, 1)
    else:
        if WAITS:
            while tl.atomic_cas(first_ptr + p // P, 1, 1) != 1:
                pass
        tl.atomic_add(at, x)  # BUG: race


@buggy("race", "o_ptr")
def remainder_is_added_to_a_tile_not_yet_stored(fixed: bool) -> None:
    x, o = torch.rand(6, 16), torch.zeros(2, 16)
    add_remainders[(6,)](x, o, words(2), WAITS=fixed, P=3, B=16)
    if fixed:
        torch.testing.assert_close(o, x.view(2, 3, 16).sum(1))


@triton.jit
def ring(x_ptr, ring_ptr, ready_ptr, o_ptr, n, SLOTS: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    for step in range(n):
        slot = ring_ptr + step % SLOTS * B + i
        if tl.program_id(0) == 0:
            tl.store(slot, tl.load(x_ptr + step * B + i))  # BUG: race
            tl.debug_barrier()
            tl.atomic_xchg(ready_ptr + step, 1)
        else:
            while tl.atomic_add(ready_ptr + step, 0) == 0:
                pass
            tl.store(o_ptr + step * B + i, tl.load(slot))


@buggy("race", "ring_ptr")
def ring_is_written_again_before_it_was_read(fixed: bool) -> None:
    x, o = torch.rand(4, 16), torch.empty(4, 16)
    ring[(2,)](x, torch.zeros(4, 16), words(4), o, 4, SLOTS=4 if fixed else 2, B=16)


@triton.jit
def add_under_lock(x_ptr, o_ptr, lock_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + tl.program_id(0) * B + i)
    old = x if FIXED else tl.load(o_ptr + i)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    if FIXED:
        old = tl.load(o_ptr + i)
    tl.store(o_ptr + i, old + x)  # BUG: race
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@buggy("race", "o_ptr")
def old_value_is_loaded_before_the_lock_is_taken(fixed: bool) -> None:
    add_under_lock[(4,)](torch.rand(4, 16), torch.zeros(16), words(1), FIXED=fixed, B=16)


@triton.jit
def last_of_a_tile(x_ptr, part_ptr, n_ptr, o_ptr, tiles, P: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    tl.store(part_ptr + p * B + i, tl.load(x_ptr + p * B + i))  # BUG: race
    tl.debug_barrier()
    if tl.atomic_add(n_ptr + p // P % tiles, 1) == P - 1:
        total = tl.zeros((B,), tl.float32)
        for k in range(P):
            total += tl.load(part_ptr + (p // P * P + k) * B + i)
        tl.store(o_ptr + p // P * B + i, total)


@buggy("race", "part_ptr")
def tiles_count_arrivals_in_one_word(fixed: bool) -> None:
    x, parts, o = torch.rand(6, 16), torch.zeros(6, 16), torch.zeros(2, 16)
    last_of_a_tile[(6,)](x, parts, words(2), o, 2 if fixed else 1, P=3, B=16)


@triton.jit
def word_and_half(o_ptr, place):
    if tl.program_id(0) == 0:
        tl.atomic_max(o_ptr.to(tl.pointer_type(tl.int64)), 1)
    else:
        tl.store(o_ptr + place, 7)  # BUG: race


@buggy("race", "o_ptr")
def half_of_a_packed_word_is_stored(fixed: bool) -> None:
    word_and_half[(2,)](words(4), 2 if fixed else 1)


@triton.jit
def prefix_of_sums(x_ptr, sum_ptr, flag_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    x = tl.load(x_ptr + p * B + tl.arange(0, B))
    tl.store(sum_ptr + p, tl.sum(x, 0))  # BUG: race
    tl.atomic_xchg(flag_ptr + p, 1)
    before = 0.0
    for k in range(p):
        while tl.atomic_add(flag_ptr + (k if FIXED else 0), 0) == 0:
            pass
        before += tl.load(sum_ptr + k)
    tl.store(o_ptr + p * B + tl.arange(0, B), tl.cumsum(x, 0) + before)


@buggy("race", "sum_ptr")
def all_wait_for_the_first_flag(fixed: bool) -> None:
    # The polls of the other programs release, too, but do not order programs that polled earlier.
    x, o = torch.rand(64), torch.empty(64)
    prefix_of_sums[(4,)](x, torch.zeros(4), words(4), o, FIXED=fixed, B=16)
