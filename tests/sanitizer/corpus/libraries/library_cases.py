"""Defects that libraries have had: caches, drafts, histories, counters, crops."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy

# mypy: disable-error-code="no-untyped-def"


@triton.jit
def push_history(h_ptr, rows, n, B: tl.constexpr):
    c = tl.arange(0, B)
    for row in range(rows - 1, 0, -1):
        h = tl.load(h_ptr + (row - 1) * n + c, mask=c < n)
        tl.store(h_ptr + row * n + c, h, mask=c < n)
    tl.store(h_ptr + c, 0.0, mask=c < n)


@triton.jit
def largest_of_history(h_ptr, o_ptr, n, H: tl.constexpr, B: tl.constexpr):
    c, row = tl.arange(0, B), tl.arange(0, H)
    place = h_ptr + row[:, None] * n + c[None, :]
    h = tl.load(place, mask=(c < n)[None, :], other=0.0)  # BUG: uninit_read
    tl.store(o_ptr + c, tl.max(h, 0), mask=c < n)


@buggy("uninit_read", "h_ptr")
def a_history_is_not_initialised(fixed: bool) -> None:
    # Copies move data by five elements, no multiple of the words with which memory is filled.
    history = torch.zeros(4, 5) if fixed else torch.empty(4, 5)
    push_history[(1,)](history, 4, 5, B=8)
    largest_of_history[(1,)](history, torch.zeros(5), 5, H=4, B=8)


@triton.jit
def sum_pages(cache_ptr, table_ptr, len_ptr, o_ptr, FIXED: tl.constexpr, P: tl.constexpr):
    request = tl.program_id(0)
    n = tl.load(len_ptr + request)
    total = 0.0
    for k in range(tl.cdiv(n, P)):
        page = tl.load(table_ptr + request * 3 + k)
        i = tl.arange(0, P)
        inside = k * P + i < n
        if FIXED:
            inside = inside & (page >= 0)
        values = tl.load(cache_ptr + page * P + i, mask=inside, other=0.0)  # BUG: oob_load
        total += tl.sum(values, 0)
    tl.store(o_ptr + request, total)


@buggy("oob_load", "cache_ptr")
def a_page_was_evicted(fixed: bool) -> None:
    table = torch.tensor([[0, 2, -1], [3, -1, 1]], dtype=torch.int32)
    lengths = torch.tensor([7, 10])
    sum_pages[(2,)](torch.rand(4, 4), table, lengths, torch.empty(2), FIXED=fixed, P=4)


@triton.jit
def accept_drafts(draft_ptr, target_ptr, cu_ptr, o_ptr, width):
    request = tl.program_id(0)
    first = tl.load(cu_ptr + request)
    n = tl.load(cu_ptr + request + 1) - first
    accepted = True
    for k in range(n):
        if accepted:
            target = tl.load(target_ptr + first + k)
            tl.store(o_ptr + request * width + k, target)
            accepted = tl.load(draft_ptr + first + k) == target
    if accepted:
        tl.store(o_ptr + request * width + n, -7)  # BUG: overlapping_store


@buggy("overlapping_store", "o_ptr", also=["oob_store"])
def a_bonus_token_goes_to_the_next_request(fixed: bool) -> None:
    drafts = torch.tensor([1, 2, 3, 4, 5, 6])
    width = 4 if fixed else 3
    output = torch.zeros(2, width, dtype=torch.int64)
    accept_drafts[(2,)](drafts, drafts.clone(), torch.tensor([0, 3, 6]), output, width)


@triton.jit
def last_one_adds(x_ptr, part_ptr, n_ptr, o_ptr, SEM: tl.constexpr, P: tl.constexpr):
    p, i = tl.program_id(0), tl.arange(0, 16)
    tl.store(part_ptr + p, tl.sum(tl.load(x_ptr + p * 16 + i), 0))  # BUG: race
    tl.debug_barrier()
    if tl.atomic_add(n_ptr, 1, sem=SEM) == P - 1:
        tl.store(o_ptr, tl.sum(tl.load(part_ptr + tl.arange(0, P)), 0))


@buggy("race", "part_ptr")
def a_counter_of_arrivals_only_acquires(fixed: bool) -> None:
    order = "acq_rel" if fixed else "acquire"
    count = torch.zeros(1, dtype=torch.int32)
    last_one_adds[(4,)](torch.rand(64), torch.zeros(4), count, torch.zeros(1), SEM=order, P=4)


@triton.jit
def moments(x_ptr, sum_ptr, square_ptr, lock_ptr, FIXED: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0))
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(sum_ptr, tl.load(sum_ptr) + x)
    if FIXED:
        tl.store(square_ptr, tl.load(square_ptr) + x * x)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)
    if not FIXED:
        tl.store(square_ptr, tl.load(square_ptr) + x * x)  # BUG: race


@buggy("race", "square_ptr", also=["overlapping_store"])
def a_second_sum_is_updated_outside_the_lock(fixed: bool) -> None:
    lock = torch.zeros(1, dtype=torch.int32)
    moments[(6,)](torch.rand(6), torch.zeros(1), torch.zeros(1), lock, FIXED=fixed)


@triton.jit
def meet(n_ptr, o_ptr, live, P: tl.constexpr, FIXED: tl.constexpr):
    p = tl.program_id(0)
    if not FIXED and p >= live:
        return
    tl.atomic_add(n_ptr, 1)
    while tl.atomic_add(n_ptr, 0) < P:  # BUG: deadlock
        pass
    tl.store(o_ptr + p, 1.0, mask=p < live)


@buggy("deadlock", "n_ptr")
def idle_programs_leave_before_the_barrier(fixed: bool) -> None:
    meet[(2,)](torch.zeros(1, dtype=torch.int32), torch.zeros(2), 1, P=2, FIXED=fixed)


@triton.jit
def flatten(x_ptr, o_ptr, h, w, sc, sh, B: tl.constexpr):
    i = tl.arange(0, B)
    place = x_ptr + tl.program_id(0) * sc + i // w * sh + i % w
    x = tl.load(place, mask=i < h * w)  # BUG: view_oob
    tl.store(o_ptr + tl.program_id(0) * h * w + i, x, mask=i < h * w)


@buggy("view_oob", "x_ptr")
def a_crop_is_read_with_its_own_width(fixed: bool) -> None:
    crop = torch.rand(3, 8, 8)[:, 2:6, 2:6]
    channel, row, _ = crop.stride()
    flatten[(3,)](crop, torch.empty(3, 4, 4), 4, 4, channel, row if fixed else 4, B=16)


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def end_of_each(length_ptr, x_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    length = tl.load(length_ptr + i)
    if FIXED:
        length = length.to(tl.int32)
    end = tl.associative_scan(length, 0, add)  # BUG: int_overflow
    tl.store(o_ptr + i, tl.load(x_ptr + end.to(tl.int32) - 1))


@buggy("int_overflow", "x_ptr")
def ends_are_summed_in_bytes(fixed: bool) -> None:
    lengths = torch.full((16,), 20, dtype=torch.uint8)
    end_of_each[(1,)](lengths, torch.rand(320), torch.empty(16), FIXED=fixed, B=16)
