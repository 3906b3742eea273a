"""Programs that work in phases, pass on data, or wait for each other."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy


@triton.jit
def stream_k(
    x_ptr,
    part_ptr,
    lock_ptr,
    o_ptr,
    TILES: tl.constexpr,
    SPLIT: tl.constexpr,
    B: tl.constexpr,
    PER: tl.constexpr,
):
    pid = tl.program_id(0)
    tile, part = pid // SPLIT, pid % SPLIT
    i = tl.arange(0, B)
    x = tl.load(x_ptr + pid * B + i)
    slot = part_ptr + (pid if PER else tile) * B + i
    if part > 0:
        tl.store(slot, x)  # BUG: overlapping_store
        tl.debug_barrier()
        tl.atomic_add(lock_ptr + tile, 1, sem="release")
    else:
        while tl.atomic_add(lock_ptr + tile, 0, sem="acquire") < SPLIT - 1:
            pass
        for k in range(1, SPLIT):
            x += tl.load(part_ptr + ((pid + k) if PER else tile) * B + i)
        tl.store(o_ptr + tile * B + i, x)


@buggy("overlapping_store", "part_ptr", also=["deadlock", "race"])
def contributors_share_a_partial_tile(fixed: bool) -> None:
    # both versions require that all programs run at the same time
    stream_k[(6,)](
        torch.rand(6, 32),
        torch.zeros(6, 32),
        torch.zeros(2, dtype=torch.int32),
        torch.empty(2, 32),
        TILES=2,
        SPLIT=3,
        B=32,
        PER=fixed,
    )


@triton.jit
def two_phases(x_ptr, y_ptr, o_ptr, tiles, bar_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    for t in range(tl.program_id(0), tiles, tl.num_programs(0)):
        y = tl.load(x_ptr + t * B + i) * 2
        tl.store(y_ptr + t * B + i, y)  # BUG: race
    if FIXED:
        tl.debug_barrier()
        tl.atomic_add(bar_ptr, 1)
        while tl.atomic_add(bar_ptr, 0) < tl.num_programs(0):
            pass
    for t in range(tl.program_id(0), tiles, tl.num_programs(0)):
        last = tiles - 1 - t
        tl.store(o_ptr + t * B + i, tl.load(y_ptr + last * B + i))


@buggy("race", "y_ptr")
def phases_of_a_persistent_kernel(fixed: bool) -> None:
    two_phases[(2,)](
        torch.rand(6, 16),
        torch.empty(6, 16),
        torch.empty(6, 16),
        6,
        torch.zeros(1, dtype=torch.int32),
        FIXED=fixed,
        B=16,
    )


@triton.jit
def phases(bar_ptr, o_ptr, P: tl.constexpr, FIXED: tl.constexpr):
    for phase in range(1, 4):
        tl.atomic_add(bar_ptr, 1)
        if FIXED:
            while tl.atomic_add(bar_ptr, 0) < P * phase:
                pass
        else:
            while tl.atomic_add(bar_ptr, 0) != P * phase:  # BUG: deadlock
                pass
    tl.store(o_ptr + tl.program_id(0), 1.0)


@buggy("deadlock", "bar_ptr")
def barrier_asks_for_equality(fixed: bool) -> None:
    phases[(2,)](torch.zeros(1, dtype=torch.int32), torch.zeros(2), P=2, FIXED=fixed)


@triton.jit
def pipe(buf_ptr, full_ptr, o_ptr, N: tl.constexpr, FIXED: tl.constexpr):
    if tl.program_id(0) == 0:
        for k in range(N):
            while tl.atomic_add(full_ptr, 0, sem="acquire") != 0:  # BUG: deadlock
                pass
            tl.store(buf_ptr, k * 1.0)
            tl.atomic_xchg(full_ptr, 1, sem="release")
    else:
        total = 0.0
        for _ in range(N):
            while tl.atomic_add(full_ptr, 0, sem="acquire") != 1:  # BUG: deadlock
                pass
            total += tl.load(buf_ptr)
            if FIXED:
                tl.atomic_xchg(full_ptr, 0, sem="release")
        tl.store(o_ptr, total)


@buggy("deadlock", "full_ptr", also=["race"])
def consumer_does_not_give_the_slot_back(fixed: bool) -> None:
    pipe[(2,)](torch.zeros(1), torch.zeros(1, dtype=torch.int32), torch.zeros(1), N=3, FIXED=fixed)


@triton.jit
def backwards(flag_ptr, o_ptr, FIXED: tl.constexpr):
    p, n = tl.program_id(0), tl.num_programs(0)
    q = p if FIXED else n - 1 - p
    if q > 0:
        while tl.atomic_add(flag_ptr + q - 1, 0, sem="acquire") == 0:  # BUG: deadlock
            pass
    tl.store(o_ptr + q, 1.0)
    tl.atomic_xchg(flag_ptr + q, 1, sem="release")


@buggy("deadlock", "flag_ptr")
def chain_goes_from_the_last_to_the_first(fixed: bool) -> None:
    backwards[(8,)](torch.zeros(8, dtype=torch.int32), torch.zeros(8), FIXED=fixed)


@triton.jit
def accumulate(x_ptr, o_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    if not FIXED and p == 0:
        tl.store(o_ptr + i, tl.zeros([B], tl.float32))  # BUG: race
    tl.atomic_add(o_ptr + i, tl.load(x_ptr + p * B + i))


@buggy("race", "o_ptr", also=["uninit_read", "intra_program_race"])
def sum_is_cleared_by_one_of_its_addends(fixed: bool) -> None:
    accumulate[(4,)](torch.rand(4, 16), torch.zeros(16), 4, FIXED=fixed, B=16)


@triton.jit
def compact(x_ptr, o_ptr, c_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=-1.0)
    keep = x > 0
    pos = tl.cumsum(keep.to(tl.int32), 0) - 1
    if FIXED:
        base = tl.atomic_add(c_ptr, tl.sum(keep.to(tl.int32)))
    else:
        base = 0
    tl.store(o_ptr + base + pos, x, mask=keep)  # BUG: overlapping_store


@buggy("overlapping_store", "o_ptr")
def each_block_compacts_to_the_beginning(fixed: bool) -> None:
    x = torch.tensor([1.0, -1.0] * 8 + [2.0, -2.0] * 8)
    compact[(2,)](x, torch.zeros(32), torch.zeros(1, dtype=torch.int32), 32, FIXED=fixed, B=16)


@triton.jit
def insert(keys_ptr, table_ptr, SIZE: tl.constexpr, FIXED: tl.constexpr):
    key = tl.load(keys_ptr + tl.program_id(0))
    slot = (key * 7) % SIZE
    old = tl.atomic_cas(table_ptr + slot, -1, key)
    while (old != -1) & (old != key):
        slot += 1
        if FIXED:
            slot = slot % SIZE
        old = tl.atomic_cas(table_ptr + slot, -1, key)  # BUG: oob_atomic


@buggy("oob_atomic", "table_ptr", also=["deadlock"])
def probing_runs_off_the_table(fixed: bool) -> None:
    table = torch.full((8,), -1, dtype=torch.int32)
    insert[(3,)](torch.tensor([1, 9, 17], dtype=torch.int32), table, SIZE=8, FIXED=fixed)
