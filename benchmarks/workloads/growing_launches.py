"""Launches in which many programs meet, of a size that is chosen: how the checks' time grows.

Each shape makes its tensors and returns what launches it. A size is about the number of accesses
that take part in what the shape is about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
import triton
import triton.language as tl

# Kernels have no annotations but constexpr: their parameters are what a launch makes of them.
# mypy: disable-error-code="no-untyped-def"

Launch: TypeAlias = Callable[[], Any]
Shape: TypeAlias = Callable[[int], Launch]

#: By name; `shape` adds to it.
SHAPES: dict[str, Shape] = {}
_BLOCK = 256


def shape(make: Shape) -> Shape:
    """Registers a shape under its name."""
    SHAPES[make.__name__] = make
    return make


def _random(high: int, count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, high, (count,), dtype=torch.int32, generator=generator)


def _zeros(count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int32)


@triton.jit
def claims_slots(x_ptr, count_ptr, out_ptr, total_ptr, n, BLOCK: tl.constexpr, RACE: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = o < n
    v = tl.load(x_ptr + o, mask=m, other=0)
    slot = tl.atomic_add(count_ptr + v, 1, mask=m)
    tl.store(out_ptr + v * 16 + slot, o, mask=m & (slot < 16))
    if RACE == 1:
        tl.store(total_ptr, n)
    if RACE == 2:
        # What a program loads here, another one may just be adding to.
        tl.store(out_ptr + o, tl.load(count_ptr + v, mask=m, other=0), mask=m & (v < 0))


def _slots(n: int, words: int, race: int = 0) -> Launch:
    x, count, out = _random(words, n), _zeros(words), _zeros(max(words * 16, n))
    grid = (triton.cdiv(n, _BLOCK),)
    return lambda: claims_slots[grid](x, count, out, _zeros(1), n, BLOCK=_BLOCK, RACE=race)


@shape
def contended_slots(n: int) -> Launch:
    """Each lane claims a slot of one of n/10 counters, and stores there."""
    return _slots(n, n // 10)


@shape
def few_counters(n: int) -> Launch:
    """The same with 8 counters, each of which n/8 lanes update."""
    return _slots(n, 8)


@shape
def slots_beside_a_race(n: int) -> Launch:
    """All programs also store to one element."""
    return _slots(n, n // 10, 1)


@shape
def slots_read_unordered(n: int) -> Launch:
    """Counters are also loaded, ordered by nothing."""
    return _slots(n, n // 10, 2)


@triton.jit
def counts(x_ptr, bins_ptr, done_ptr, out_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    o = p * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x_ptr + o, mask=o < n, other=0)
    tl.atomic_add(bins_ptr + v, 1, mask=o < n)
    tl.debug_barrier()
    if tl.atomic_add(done_ptr, 1) == tl.num_programs(0) - 1:
        b = tl.arange(0, BINS)
        tl.store(out_ptr + b, tl.load(bins_ptr + b))


@shape
def histogram_read_by_the_last(n: int) -> Launch:
    """A histogram of 64 bins, which the last program to finish loads."""
    x, bins, done, out = _random(64, n), _zeros(64), _zeros(1), _zeros(64)
    grid = (triton.cdiv(n, _BLOCK),)
    return lambda: counts[grid](x, bins, done.zero_(), out, n, BINS=64, BLOCK=_BLOCK)


@triton.jit
def adds_partial_sums(partial_ptr, done_ptr, out_ptr, COUNT: tl.constexpr):
    p = tl.program_id(0)
    tl.store(partial_ptr + p, p)
    tl.debug_barrier()
    if tl.atomic_add(done_ptr, 1) == tl.num_programs(0) - 1:
        tl.store(out_ptr, tl.sum(tl.load(partial_ptr + tl.arange(0, COUNT))))


@shape
def last_program_sums(n: int) -> Launch:
    """n programs store a number each; the last one adds them up."""
    count = triton.next_power_of_2(n)
    partial, done, out = _zeros(count), _zeros(1), _zeros(1)
    return lambda: adds_partial_sums[(count,)](partial, done.zero_(), out, COUNT=count)


@triton.jit
def hands_on(flag_ptr, x_ptr):
    p = tl.program_id(0)
    if p > 0:
        while tl.atomic_add(flag_ptr + p - 1, 0) == 0:
            pass
    tl.store(x_ptr, tl.load(x_ptr) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(flag_ptr + p, 1)


@shape
def chain_of_flags(n: int) -> Launch:
    """Each of n programs waits for a flag of the one before; all update one element."""
    flag, x = _zeros(n), _zeros(1)

    def launch() -> None:
        flag.zero_()
        hands_on[(n,)](flag, x)

    return launch


@triton.jit
def looks_back(flag_ptr, sum_ptr, x_ptr, WINDOW: tl.constexpr):
    p = tl.program_id(0)
    tl.store(x_ptr + p, p)
    total = 0
    for back in range(1, WINDOW + 1):
        if p >= back:
            while tl.atomic_add(flag_ptr + p - back, 0) == 0:
                pass
            total += tl.load(sum_ptr + p - back)
    tl.store(sum_ptr + p, total % 1000 + 1)
    tl.debug_barrier()
    tl.atomic_xchg(flag_ptr + p, 1)


@shape
def decoupled_look_back(n: int) -> Launch:
    """Each of n programs waits for four before it and loads what they stored."""
    flag, sums, x = _zeros(n), _zeros(n), _zeros(n)

    def launch() -> None:
        flag.zero_()
        looks_back[(n,)](flag, sums, x, WINDOW=4)

    return launch


@triton.jit
def takes_locks(lock_ptr, x_ptr, locks, BLOCK: tl.constexpr):
    which = tl.program_id(0) % locks
    o = which * BLOCK + tl.arange(0, BLOCK)
    while tl.atomic_cas(lock_ptr + which, 0, 1) == 1:
        pass
    tl.store(x_ptr + o, tl.load(x_ptr + o) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr + which, 0)


def _locked(n: int, locks: int) -> Launch:
    lock, x = _zeros(locks), _zeros(locks * 16)
    return lambda: takes_locks[(n,)](lock, x, locks, BLOCK=16)


@shape
def one_lock(n: int) -> Launch:
    """n programs update a row under one lock."""
    return _locked(n, 1)


@shape
def many_locks(n: int) -> Launch:
    """n programs update n/16 rows under a lock each."""
    return _locked(n, max(1, n // 16))


@triton.jit
def takes_tickets(ticket_ptr, turn_ptr, x_ptr):
    mine = tl.atomic_add(ticket_ptr, 1)
    while tl.atomic_add(turn_ptr, 0) != mine:
        pass
    tl.store(x_ptr, tl.load(x_ptr) + 1)
    tl.debug_barrier()
    tl.atomic_add(turn_ptr, 1)


@shape
def ticket_lock(n: int) -> Launch:
    """n programs take a ticket and wait for their turn."""
    ticket, turn, x = _zeros(1), _zeros(1), _zeros(1)

    def launch() -> None:
        ticket.zero_()
        turn.zero_()
        takes_tickets[(n,)](ticket, turn, x)

    return launch


@triton.jit
def two_counters(a_ptr, b_ptr, x_ptr, out_ptr):
    p = tl.program_id(0)
    tl.atomic_add(a_ptr, 1)
    tl.atomic_add(b_ptr, 1)
    tl.store(x_ptr, 1)
    tl.store(out_ptr + p, p)


@shape
def race_beside_counters(n: int) -> Launch:
    """n programs update two counters, and store to one element unordered."""
    a, b, x, out = _zeros(1), _zeros(1), _zeros(1), _zeros(n)
    return lambda: two_counters[(n,)](a, b, x, out)


@triton.jit
def scatters(index_ptr, x_ptr, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(index_ptr + o, mask=o < n, other=0)
    tl.store(x_ptr + at, o, mask=o < n)


@shape
def scattered_stores(n: int) -> Launch:
    """n lanes store to a permutation of n elements."""
    generator = torch.Generator().manual_seed(0)
    index, x = torch.randperm(n, generator=generator).int(), _zeros(n)
    grid = (triton.cdiv(n, _BLOCK),)
    return lambda: scatters[grid](index, x, n, BLOCK=_BLOCK)


@shape
def scattered_collisions(n: int) -> Launch:
    """n lanes store to n/4 elements at random: they race."""
    index, x = _random(n // 4, n), _zeros(n // 4)
    grid = (triton.cdiv(n, _BLOCK),)
    return lambda: scatters[grid](index, x, n, BLOCK=_BLOCK)


@triton.jit
def adds_and_reads(
    x_ptr, done_ptr, out_ptr, GROUPS: tl.constexpr, COUNT: tl.constexpr, WORDS: tl.constexpr
):
    p = tl.program_id(0)
    o = tl.arange(0, WORDS)
    tl.atomic_add(x_ptr + o, 1)
    tl.debug_barrier()
    tl.atomic_add(done_ptr + p % GROUPS, 1)
    for group in range(GROUPS):
        while tl.atomic_add(done_ptr + group, 0) < COUNT // GROUPS:
            pass
    tl.store(out_ptr + p, tl.sum(tl.load(x_ptr + o)))


@shape
def barrier_of_groups(n: int) -> Launch:
    """64 programs add to n/64 words, wait for four counters, and load what all have added."""
    words = triton.next_power_of_2(max(1, n // 64))
    x, done, out = _zeros(words), _zeros(4), _zeros(64)

    def launch() -> None:
        done.zero_()
        adds_and_reads[(64,)](x, done, out, GROUPS=4, COUNT=64, WORDS=words)

    return launch
