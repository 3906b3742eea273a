"""Defects in paged caches, page tables and token slots, as model servers use them."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy


@triton.jit
def draft_lengths(ends_ptr, o_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    if FIXED:
        start = tl.load(ends_ptr + i - 1, mask=(i > 0) & (i < n), other=0)
    else:
        start = tl.where(i == 0, 0, tl.load(ends_ptr + i - 1, mask=i < n))  # BUG: oob_load
    tl.store(o_ptr + i, tl.load(ends_ptr + i, mask=i < n, other=0) - start, mask=i < n)


@buggy("oob_load", "ends_ptr")
def both_arms_of_where_are_loaded(fixed: bool) -> None:
    ends = torch.arange(1, 21, dtype=torch.int32) * 3
    lengths = torch.empty_like(ends)
    draft_lengths[(2,)](ends, lengths, 20, FIXED=fixed, B=16)
    if fixed:
        assert lengths.tolist() == [3] * 20


@triton.jit
def sum_of_pages(
    cache_ptr, table_ptr, o_ptr, n, width, MASKED: tl.constexpr, P: tl.constexpr, T: tl.constexpr
):
    t = tl.arange(0, T)
    column = table_ptr + tl.program_id(0) * width + t // P
    if MASKED:
        page = tl.load(column, mask=t < n, other=0)
    else:
        page = tl.load(column)  # BUG: oob_load
    x = tl.load(cache_ptr + page * P + t % P, mask=t < n, other=0.0)
    tl.store(o_ptr + tl.program_id(0), tl.sum(x, axis=0))


@buggy("oob_load", "table_ptr")
def table_of_pages_is_loaded_without_a_mask(fixed: bool) -> None:
    table = torch.tensor([[0, 1, 2], [3, 4, 5]], dtype=torch.int32)
    sum_of_pages[(2,)](torch.rand(6, 4), table, torch.empty(2), 10, 3, MASKED=fixed, P=4, T=16)


@triton.jit
def load_pages(
    cache_ptr, table_ptr, o_ptr, n, width, FIXED: tl.constexpr, P: tl.constexpr, T: tl.constexpr
):
    t = tl.arange(0, T)
    column = t // P if FIXED else t
    at = table_ptr + tl.program_id(0) * width + column
    page = tl.load(at, mask=t < n, other=0)  # BUG: oob_load
    x = tl.load(cache_ptr + page * P + t % P, mask=t < n, other=0.0)
    tl.store(o_ptr + tl.program_id(0) * n + t, x, mask=t < n)


@buggy("oob_load", "table_ptr")
def token_is_used_as_a_column_of_the_table(fixed: bool) -> None:
    table = torch.tensor([[0, 1], [2, 3]], dtype=torch.int32)
    out = torch.empty(2, 13)
    load_pages[(2,)](torch.rand(4, 8), table, out, 13, 2, FIXED=fixed, P=8, T=16)


@triton.jit
def append_and_attend(
    k_ptr, cache_ptr, o_ptr, n, FIXED: tl.constexpr, D: tl.constexpr, T: tl.constexpr
):
    p = tl.program_id(0)
    d, t = tl.arange(0, D), tl.arange(0, T)
    tl.store(cache_ptr + (n + p) * D + d, tl.load(k_ptr + p * D + d))  # BUG: race
    seen = n if FIXED else n + p
    keys = tl.load(
        cache_ptr + t[:, None] * D + d[None, :],
        mask=(t < seen)[:, None],
        other=0.0,
    )
    tl.store(o_ptr + p * D + d, tl.sum(keys, axis=0))


@buggy("race", "cache_ptr")
def cache_is_appended_to_and_read_in_one_launch(fixed: bool) -> None:
    k, cache, out = torch.rand(4, 8), torch.zeros(16, 8), torch.empty(4, 8)
    append_and_attend[(4,)](k, cache, out, 6, FIXED=fixed, D=8, T=16)


@triton.jit
def rotate_keys(k_ptr, HQ: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, ONCE: tl.constexpr):
    h = tl.program_id(1)
    group: tl.constexpr = HQ // HK
    if not ONCE or h % group == 0:
        d = tl.arange(0, D // 2)
        low = k_ptr + (tl.program_id(0) * HK + h // group) * D + d
        a, b = tl.load(low), tl.load(low + D // 2)
        tl.store(low, 0.6 * a - 0.8 * b)  # BUG: race
        tl.store(low + D // 2, 0.6 * b + 0.8 * a)  # BUG: race


@buggy("race", "k_ptr", also=["overlapping_store"])
def keys_are_rotated_once_per_query_head(fixed: bool) -> None:
    rotate_keys[(3, 4)](torch.rand(3, 2, 8), HQ=4, HK=2, D=8, ONCE=fixed)
