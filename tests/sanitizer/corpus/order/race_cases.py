"""Programs access the same elements without synchronisation."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy


@triton.jit
def split_k(a_ptr, b_ptr, c_ptr, K, FIXED: tl.constexpr, B: tl.constexpr):
    m = tl.arange(0, B)
    k = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * B + m[None, :])
    at = c_ptr + m[:, None] * B + m[None, :]
    part = tl.dot(a, b, input_precision="ieee")
    if FIXED:
        tl.atomic_add(at, part)
    else:
        tl.store(at, part)  # BUG: overlapping_store


@buggy("overlapping_store", "c_ptr")
def parts_of_k_overwrite_each_other(fixed: bool) -> None:
    a, b, c = torch.rand(16, 64), torch.rand(64, 16), torch.zeros(16, 16)
    split_k[(4,)](a, b, c, 64, FIXED=fixed, B=16)
    if fixed:
        torch.testing.assert_close(c, a @ b)


@triton.jit
def column_sums(x_ptr, o_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    x = tl.load(x_ptr + r * n + c, mask=c < n, other=0.0)
    if FIXED:
        tl.atomic_add(o_ptr + c, x, mask=c < n)
    else:
        before = tl.load(o_ptr + c, mask=c < n, other=0.0)  # BUG: race
        tl.store(o_ptr + c, before + x, mask=c < n)  # BUG: race


@buggy("race", "o_ptr", also=["overlapping_store"])
def sums_are_read_changed_and_written(fixed: bool) -> None:
    column_sums[(6,)](torch.rand(6, 20), torch.zeros(20), 20, FIXED=fixed, B=32)


@triton.jit
def transpose(x_ptr, o_ptr, n, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.program_id(1) * B + tl.arange(0, B)
    x = tl.load(x_ptr + r[:, None] * n + c[None, :])
    tl.store(o_ptr + c[None, :] * n + r[:, None], x)  # BUG: race


@buggy("race", "o_ptr", also=["intra_program_race"])
def transpose_in_place(fixed: bool) -> None:
    x = torch.rand(32, 32)
    transpose[(2, 2)](x, torch.empty(32, 32) if fixed else x, 32, B=16)


@triton.jit
def relax(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = (i > 0) & (i < n - 1)
    left = tl.load(x_ptr + i - 1, mask=inside, other=0.0)
    right = tl.load(x_ptr + i + 1, mask=inside, other=0.0)
    tl.store(o_ptr + i, 0.5 * (left + right), mask=inside)  # BUG: race


@buggy("race", "o_ptr", also=["intra_program_race"])
def neighbours_of_an_update_in_place(fixed: bool) -> None:
    x = torch.rand(100)
    relax[(4,)](x, torch.zeros(100) if fixed else x, 100, B=32)


@triton.jit
def tiled(x_ptr, o_ptr, step, n, B: tl.constexpr):
    p = tl.program_id(0)
    i = p * step + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(o_ptr + i, x - tl.sum(x, 0) / B, mask=i < n)  # BUG: overlapping_store


@buggy("overlapping_store", "o_ptr")
def tiles_overlap(fixed: bool) -> None:
    step = 32 if fixed else 30
    tiled[(3,)](torch.rand(96), torch.empty(96), step, 96, B=32)


@triton.jit
def scatter(x_ptr, index_ptr, o_ptr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + tl.load(index_ptr + i), tl.load(x_ptr + i))  # BUG: overlapping_store


@buggy("overlapping_store", "o_ptr")
def indices_repeat_between_programs(fixed: bool) -> None:
    index = torch.randperm(64, generator=torch.Generator().manual_seed(1))
    if not fixed:
        index[40] = index[3]
    scatter[(4,)](torch.arange(64.0), index, torch.empty(64), B=16)


@triton.jit
def mixed(x_ptr, o_ptr, seen_ptr, FIXED: tl.constexpr):
    p = tl.program_id(0)
    tl.atomic_add(o_ptr, tl.load(x_ptr + p))  # BUG: race
    if FIXED:
        seen = tl.atomic_add(o_ptr, 0.0)
    else:
        seen = tl.load(o_ptr)  # BUG: race
    tl.store(seen_ptr + p, seen)


@buggy("race", "o_ptr")
def plain_load_beside_atomics(fixed: bool) -> None:
    mixed[(4,)](torch.rand(4), torch.zeros(1), torch.empty(4), FIXED=fixed)


@triton.jit
def counted(x_ptr, n_ptr, o_ptr, FIXED: tl.constexpr):
    p = tl.program_id(0)
    if FIXED:
        slot = tl.atomic_add(n_ptr, 1)
    else:
        slot = tl.load(n_ptr)
        tl.store(n_ptr, slot + 1)  # BUG: race
    tl.store(o_ptr + slot, tl.load(x_ptr + p))


@buggy("race", "n_ptr", also=["overlapping_store"])
def counter_without_atomics(fixed: bool) -> None:
    n = torch.zeros(1, dtype=torch.int32)
    counted[(4,)](torch.rand(4), n, torch.empty(4), FIXED=fixed)


@triton.jit
def last_block(x_ptr, part_ptr, n_ptr, o_ptr, ORDER: tl.constexpr, N: tl.constexpr):
    p = tl.program_id(0)
    tl.store(part_ptr + p, tl.load(x_ptr + p) * 2)  # BUG: race
    tl.debug_barrier()
    if tl.atomic_add(n_ptr, 1, sem=ORDER) == N - 1:
        parts = tl.load(part_ptr + tl.arange(0, N))  # BUG: race
        tl.store(o_ptr, tl.sum(parts, 0))


@buggy("race", "part_ptr")
def last_block_counts_in_relaxed_order(fixed: bool) -> None:
    n = torch.zeros(1, dtype=torch.int32)
    order = "acq_rel" if fixed else "relaxed"
    last_block[(8,)](torch.rand(8), torch.empty(8), n, torch.empty(1), ORDER=order, N=8)


@triton.jit
def handed_on(x_ptr, data_ptr, flag_ptr, o_ptr, SCOPE: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    if p == 0:
        tl.store(data_ptr + i, tl.load(x_ptr + i) + 1)  # BUG: race
        tl.debug_barrier()
        tl.atomic_xchg(flag_ptr, 1, sem="release", scope=SCOPE)
    else:
        while tl.atomic_cas(flag_ptr, 1, 1, sem="acquire", scope=SCOPE) != 1:
            pass
        tl.debug_barrier()
        tl.store(o_ptr + i, tl.load(data_ptr + i))  # BUG: race


@buggy("race", "data_ptr")
def flag_is_seen_by_one_block_only(fixed: bool) -> None:
    flag = torch.zeros(1, dtype=torch.int32)
    scope = "gpu" if fixed else "cta"
    handed_on[(2,)](torch.rand(32), torch.zeros(32), flag, torch.empty(32), SCOPE=scope, B=32)


@triton.jit
def chained(x_ptr, sum_ptr, flag_ptr, o_ptr, ORDER: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    x = tl.load(x_ptr + p * B + tl.arange(0, B))
    before = 0.0
    if p > 0:
        while tl.atomic_add(flag_ptr + p - 1, 0, sem=ORDER) == 0:
            pass
        tl.debug_barrier()
        before = tl.load(sum_ptr + p - 1)  # BUG: race
    tl.store(sum_ptr + p, before + tl.sum(x, 0))  # BUG: race
    tl.debug_barrier()
    tl.atomic_xchg(flag_ptr + p, 1, sem="release")
    tl.store(o_ptr + p * B + tl.arange(0, B), before + tl.cumsum(x, 0))


@buggy("race", "sum_ptr")
def prefix_is_not_acquired(fixed: bool) -> None:
    flag = torch.zeros(4, dtype=torch.int32)
    order = "acquire" if fixed else "relaxed"
    chained[(4,)](torch.rand(64), torch.zeros(4), flag, torch.empty(64), ORDER=order, B=16)


@triton.jit
def locked(x_ptr, o_ptr, lock_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + tl.program_id(0) * B + i)
    slot = 0 if FIXED else tl.program_id(0) % 2
    while tl.atomic_cas(lock_ptr + slot, 0, 1) == 1:
        pass
    tl.debug_barrier()
    tl.store(o_ptr + i, tl.load(o_ptr + i) + x)  # BUG: race
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr + slot, 0)


@buggy("race", "o_ptr", also=["overlapping_store"])
def two_locks_for_one_sum(fixed: bool) -> None:
    lock = torch.zeros(2, dtype=torch.int32)
    locked[(6,)](torch.rand(96), torch.zeros(16), lock, FIXED=fixed, B=16)


@triton.jit
def normalised(x_ptr, n, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.program_id(1) * B + tl.arange(0, B)
    row = tl.arange(0, 4 * B)
    total = tl.sum(tl.load(x_ptr + r * n + row, mask=row < n, other=0.0), 0)
    x = tl.load(x_ptr + r * n + c, mask=c < n, other=0.0)
    tl.store(x_ptr + r * n + c, x / total, mask=c < n)  # BUG: race


@buggy("race", "x_ptr")
def row_is_read_while_others_scale_it(fixed: bool) -> None:
    blocks = 1 if fixed else 4
    normalised[(2, blocks)](torch.rand(2, 60), 60, B=64 if fixed else 16)


@triton.jit
def padded_store(x_ptr, o_ptr, m, n, FIXED: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    x = tl.load(x_ptr + r * n + c, mask=c < n, other=-1.0)
    mask = c < n if FIXED else r * n + c < m * n
    tl.store(o_ptr + r * n + c, x, mask=mask)  # BUG: overlapping_store


@buggy("overlapping_store", "o_ptr")
def padding_runs_into_the_next_row(fixed: bool) -> None:
    padded_store[(5,)](torch.rand(5, 13), torch.empty(5, 13), 5, 13, FIXED=fixed, B=16)


@triton.jit
def tile_of_head(q_ptr, o_ptr, s, FIXED: tl.constexpr, H: tl.constexpr, D: tl.constexpr):
    h = tl.program_id(1) if FIXED else tl.program_id(1) // 2
    d = tl.arange(0, D)
    q = tl.load(q_ptr + tl.program_id(0) * s + tl.program_id(1) * D + d)
    tl.store(o_ptr + tl.program_id(0) * s + h * D + d, q)  # BUG: overlapping_store


@buggy("overlapping_store", "o_ptr")
def two_heads_share_an_output(fixed: bool) -> None:
    tile_of_head[(3, 4)](torch.rand(3, 4, 16), torch.zeros(3, 4, 16), 64, FIXED=fixed, H=4, D=16)


@triton.jit
def reset(x_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    if not FIXED and p == 0:
        tl.store(o_ptr + i, 0.0)  # BUG: race
    tl.atomic_add(o_ptr + i, tl.load(x_ptr + p * B + i))  # BUG: race


@buggy("race", "o_ptr")
def first_program_clears_what_others_add_to(fixed: bool) -> None:
    reset[(4,)](torch.rand(4, 16), torch.zeros(16), FIXED=fixed, B=16)


@triton.jit
def boxes(o_ptr, n, step, B: tl.constexpr):
    o = tl.make_tensor_descriptor(o_ptr, [n], [1], [B])
    p = tl.program_id(0)
    o.store([p * step], tl.full((B,), 1.0, tl.float32) * p)  # BUG: overlapping_store


@buggy("overlapping_store", "o_ptr")
def boxes_of_descriptors_overlap(fixed: bool) -> None:
    boxes[(4,)](torch.empty(64), 64, 16 if fixed else 12, B=16)


@triton.jit
def copied_rows(x_ptr, o_ptr, s, n, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    x = tl.load(x_ptr + r * n + c, mask=c < n)
    tl.store(o_ptr + r * s + c, x, mask=c < n)  # BUG: overlapping_store


@buggy("overlapping_store", "o_ptr")
def rows_of_an_expanded_output(fixed: bool) -> None:
    o = torch.zeros(4 if fixed else 1, 16).expand(4, 16)
    copied_rows[(4,)](torch.rand(4, 16), o, o.stride(0), 16, B=16)


@triton.jit
def latest(o_ptr, FIXED: tl.constexpr):
    p = tl.program_id(0)
    if FIXED:
        tl.atomic_max(o_ptr, p)
    else:
        tl.atomic_xchg(o_ptr, p)  # BUG: race


@buggy("race", "o_ptr", missed="atomic exchanges of different values are not reported as races")
def the_last_exchange_wins(fixed: bool) -> None:
    latest[(4,)](torch.zeros(1, dtype=torch.int32), FIXED=fixed)
