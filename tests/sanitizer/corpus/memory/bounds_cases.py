"""Accesses outside the storage of a tensor."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy


@triton.jit
def stencil(x_ptr, o_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < n
    middle = tl.load(x_ptr + i, mask=inside, other=0.0)
    if FIXED:
        left = tl.load(x_ptr + i - 1, mask=inside & (i > 0), other=0.0)
        right = tl.load(x_ptr + i + 1, mask=i < n - 1, other=0.0)
    else:
        left = tl.load(x_ptr + i - 1, mask=inside, other=0.0)  # BUG: oob_load
        right = tl.load(x_ptr + i + 1, mask=inside, other=0.0)  # BUG: oob_load
    tl.store(o_ptr + i, left + middle + right, mask=inside)


@buggy("oob_load", "x_ptr")
def halo_of_a_stencil(fixed: bool) -> None:
    x, o = torch.ones(75), torch.empty(75)
    stencil[(3,)](x, o, 75, FIXED=fixed, B=32)
    if fixed:
        assert o.tolist() == [2.0] + 73 * [3.0] + [2.0]


@triton.jit
def reverse(x_ptr, o_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    last = n - 1 if FIXED else n
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    tl.store(o_ptr + last - i, x, mask=i < n)  # BUG: oob_store


@buggy("oob_store", "o_ptr")
def reversing_is_off_by_one(fixed: bool) -> None:
    reverse[(2,)](torch.arange(40), torch.empty(40, dtype=torch.int64), 40, FIXED=fixed, B=32)


@triton.jit
def inclusive(x_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    mask = i < n if FIXED else i <= n
    tl.store(x_ptr + i, i.to(tl.float32), mask=mask)  # BUG: oob_store


@buggy("oob_store", "x_ptr")
def mask_includes_the_bound(fixed: bool) -> None:
    inclusive[(2,)](torch.empty(50), 50, FIXED=fixed, B=32)


@triton.jit
def add_bias(x_ptr, b_ptr, m, n, s, FIXED: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.program_id(1) * B + tl.arange(0, B)
    bias = tl.load(b_ptr + c, mask=c < n if FIXED else r < m, other=0.0)  # BUG: oob_load
    at = x_ptr + r[:, None] * s + c[None, :]
    mask = (r[:, None] < m) & (c[None, :] < n)
    tl.store(at, tl.load(at, mask=mask, other=0.0) + bias[None, :], mask=mask)


@buggy("oob_load", "b_ptr")
def mask_of_the_other_axis(fixed: bool) -> None:
    x, b = torch.zeros(30, 20), torch.rand(20)
    add_bias[(2, 2)](x, b, 30, 20, 20, FIXED=fixed, B=16)


@triton.jit
def scatter_rows(x_ptr, index_ptr, o_ptr, rows, FIXED: tl.constexpr, D: tl.constexpr):
    p = tl.program_id(0)
    d = tl.arange(0, D)
    row = tl.load(index_ptr + p)
    keep = (row >= 0) & (row < rows) if FIXED else row < rows
    tl.store(o_ptr + row * D + d, tl.load(x_ptr + p * D + d), mask=keep)  # BUG: oob_store


@buggy("oob_store", "o_ptr")
def negative_slots_of_padding_tokens(fixed: bool) -> None:
    index = torch.tensor([2, -1, 0, 5, -1, 1])
    scatter_rows[(6,)](torch.rand(6, 8), index, torch.zeros(6, 8), 6, FIXED=fixed, D=8)


@triton.jit
def cross_entropy(x_ptr, label_ptr, o_ptr, v, ignore, FIXED: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    label = tl.load(label_ptr + p)
    c = tl.arange(0, B)
    x = tl.load(x_ptr + p * v + c, mask=c < v, other=float("-inf"))
    total = tl.log(tl.sum(tl.exp(x - tl.max(x, 0)), 0)) + tl.max(x, 0)
    if FIXED:
        own = tl.load(x_ptr + p * v + label, mask=label != ignore, other=0.0)
    else:
        own = tl.load(x_ptr + p * v + label)  # BUG: oob_load
    tl.store(o_ptr + p, tl.where(label == ignore, 0.0, total - own))


@buggy("oob_load", "x_ptr")
def ignored_label_is_used_as_index(fixed: bool) -> None:
    x, label = torch.rand(3, 20), torch.tensor([-100, 3, 19])
    cross_entropy[(3,)](x, label, torch.empty(3), 20, -100, FIXED=fixed, B=32)


@triton.jit
def count(x_ptr, bins_ptr, n, low, width, bins, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    b = ((x - low) / width).to(tl.int32)
    if FIXED:
        b = tl.minimum(b, bins - 1)
    tl.atomic_add(bins_ptr + b, 1, mask=i < n)  # BUG: oob_atomic


@buggy("oob_atomic", "bins_ptr")
def largest_value_is_beyond_the_last_bin(fixed: bool) -> None:
    x = torch.linspace(0.0, 1.0, 33)
    bins = torch.zeros(8, dtype=torch.int32)
    count[(2,)](x, bins, 33, 0.0, 0.125, 8, FIXED=fixed, B=32)


@triton.jit
def ticket(_x_ptr, lock_ptr, o_ptr, FIXED: tl.constexpr):
    p = tl.program_id(0)
    slot = p if FIXED else p + 1
    old = tl.atomic_cas(lock_ptr + slot, 0, 1)  # BUG: oob_atomic
    tl.store(o_ptr + p, old)


@buggy("oob_atomic", "lock_ptr")
def locks_are_counted_from_one(fixed: bool) -> None:
    lock, o = torch.zeros(4, dtype=torch.int32), torch.empty(4, dtype=torch.int32)
    ticket[(4,)](o, lock, o, FIXED=fixed)


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, FIXED: tl.constexpr, B: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)
    n = tl.program_id(1) * B + tl.arange(0, B)
    k = tl.arange(0, BK)
    acc = tl.zeros((B, B), tl.float32)
    for start in range(tl.cdiv(K, BK)):
        left = K - start * BK if FIXED else K
        a_at = a_ptr + (m % M)[:, None] * K + (start * BK + k)[None, :]
        b_at = b_ptr + (start * BK + k)[:, None] * N + (n % N)[None, :]
        a = tl.load(a_at, mask=k[None, :] < left, other=0.0)  # BUG: oob_load
        b = tl.load(b_at, mask=k[:, None] < left, other=0.0)  # BUG: oob_load
        acc += tl.dot(a, b, input_precision="ieee")
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=mask)


@buggy("oob_load", "b_ptr", also=["local_mask"])
def last_step_along_k(fixed: bool) -> None:
    a, b, c = torch.rand(24, 40), torch.rand(40, 20), torch.empty(24, 20)
    matmul[(2, 2)](a, b, c, 24, 20, 40, FIXED=fixed, B=16, BK=16)
    if fixed:
        torch.testing.assert_close(c, a @ b)


@triton.jit
def rows_of(x_ptr, o_ptr, m, n, FIXED: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    if FIXED and r >= m:
        return
    x = tl.load(x_ptr + r * n + c, mask=c < n, other=0.0)  # BUG: oob_load
    tl.store(o_ptr + r * n + c, x, mask=c < n)  # BUG: oob_store


@buggy("oob_store", "o_ptr", also=["oob_load"])
def grid_is_rounded_up(fixed: bool) -> None:
    rows_of[(8,)](torch.rand(5, 12), torch.empty(5, 12), 5, 12, FIXED=fixed, B=16)


@triton.jit
def shared_heads(q_ptr, k_ptr, o_ptr, groups, D: tl.constexpr):
    head = tl.program_id(0)
    d = tl.arange(0, D)
    k = tl.load(k_ptr + (head // groups) * D + d)  # BUG: oob_load
    tl.store(o_ptr + head * D + d, tl.load(q_ptr + head * D + d) * k)


@buggy("oob_load", "k_ptr")
def ratio_of_heads_is_wrong(fixed: bool) -> None:
    q, k = torch.rand(8, 16), torch.rand(2, 16)
    shared_heads[(8,)](q, k, torch.empty(8, 16), 4 if fixed else 2, D=16)


@triton.jit
def lengths(cu_ptr, x_ptr, o_ptr, B: tl.constexpr):
    s = tl.program_id(0)
    start = tl.load(cu_ptr + s)
    end = tl.load(cu_ptr + s + 1)  # BUG: oob_load
    i = tl.arange(0, B)
    x = tl.load(x_ptr + start + i, mask=i < end - start, other=0.0)
    tl.store(o_ptr + s, tl.sum(x, 0))


@buggy("oob_load", "cu_ptr")
def offsets_lack_the_last(fixed: bool) -> None:
    cu = torch.tensor([0, 3, 10, 12] if fixed else [0, 3, 10], dtype=torch.int32)
    lengths[(3,)](cu, torch.rand(12), torch.empty(3), B=16)


@triton.jit
def packed(w_ptr, o_ptr, k, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    at = i // 2 if FIXED else i
    byte = tl.load(w_ptr + at, mask=i < k, other=0)  # BUG: oob_load
    tl.store(o_ptr + i, (byte >> ((i % 2) * 4)) & 15, mask=i < k)


@buggy("oob_load", "w_ptr")
def two_values_share_a_byte(fixed: bool) -> None:
    w = torch.randint(0, 127, (24,), dtype=torch.int8)
    packed[(1,)](w, torch.empty(48, dtype=torch.int8), 48, FIXED=fixed, B=64)


@triton.jit
def as_words(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    word = tl.load(x_ptr.to(tl.pointer_type(tl.int32)) + i, mask=i < n, other=0)  # BUG: oob_load
    tl.store(o_ptr + i, word, mask=i < n)


@buggy("oob_load", "x_ptr")
def last_word_straddles_the_end(fixed: bool) -> None:
    x = torch.zeros(30, dtype=torch.uint8)
    as_words[(1,)](x, torch.empty(8, dtype=torch.int32), 7 if fixed else 8, B=8)


@triton.jit
def reinterpreted(x_ptr, o_ptr, first, B: tl.constexpr):
    p = (x_ptr + first).to(tl.pointer_type(tl.int64))
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(p + i))  # BUG: misaligned


@buggy("misaligned", "x_ptr")
def words_begin_at_an_odd_element(fixed: bool) -> None:
    x = torch.zeros(64, dtype=torch.int16)
    reinterpreted[(1,)](x, torch.empty(8, dtype=torch.int64), 4 if fixed else 3, B=8)


@triton.jit
def moved_tile(x_ptr, o_ptr, m, n, rows, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [rows, n], [n, 1], [BM, BN])
    o = tl.make_tensor_descriptor(o_ptr, [m, n], [n, 1], [BM, BN])
    r = tl.program_id(0) * BM
    o.store([r, 0], x.load([r, 0]))  # BUG: oob_load


@buggy("oob_load", "x_ptr")
def descriptor_is_larger_than_the_tensor(fixed: bool) -> None:
    x, o = torch.rand(20, 16), torch.empty(20, 16)
    moved_tile[(2,)](x, o, 20, 16, 20 if fixed else 32, BM=16, BN=16)


@triton.jit
def windows(x_ptr, w_ptr, o_ptr, n, FIXED: tl.constexpr, W: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    acc = tl.zeros((B,), tl.float32)
    for k in range(W):
        at = i + k - (W - 1)
        mask = (at >= 0) & (at < n) if FIXED else at < n
        acc += tl.load(x_ptr + at, mask=mask, other=0.0) * tl.load(w_ptr + k)  # BUG: oob_load
    tl.store(o_ptr + i, acc, mask=i < n)


@buggy("oob_load", "x_ptr")
def causal_convolution_begins_before_the_start(fixed: bool) -> None:
    windows[(2,)](torch.rand(50), torch.rand(4), torch.empty(50), 50, FIXED=fixed, W=4, B=32)


@triton.jit
def pages(cache_ptr, table_ptr, o_ptr, length, FIXED: tl.constexpr, P: tl.constexpr):
    total = 0.0
    steps = tl.cdiv(length, P) if FIXED else length // P + 1
    for block in range(steps):
        page = tl.load(table_ptr + block)
        i = tl.arange(0, P)
        inside = block * P + i < length if FIXED else i < P
        x = tl.load(cache_ptr + page * P + i, mask=inside, other=0.0)  # BUG: oob_load
        total += tl.sum(x, 0)
    tl.store(o_ptr, total)


@buggy("oob_load", "cache_ptr")
def page_after_the_last_one(fixed: bool) -> None:
    table = torch.tensor([3, 0, -1, -1], dtype=torch.int32)
    pages[(1,)](torch.rand(4, 16), table, torch.empty(1), 32, FIXED=fixed, P=16)


@triton.jit
def next_of(list_ptr, o_ptr, limit, FIXED: tl.constexpr):
    node = 0
    steps = 0
    while node != -1 if FIXED else steps < limit:
        node = tl.load(list_ptr + node)  # BUG: oob_load
        steps += 1
    tl.store(o_ptr, steps)


@buggy("oob_load", "list_ptr")
def linked_list_has_ended(fixed: bool) -> None:
    links = torch.tensor([2, -1, 3, 1], dtype=torch.int32)
    next_of[(1,)](links, torch.empty(1, dtype=torch.int32), 8, FIXED=fixed)


@triton.jit
def row_at(x_ptr, row, stride, BLOCK: tl.constexpr):
    return tl.load(x_ptr + row * stride + tl.arange(0, BLOCK))  # BUG: oob_load


@triton.jit
def pairwise(x_ptr, o_ptr, n, D: tl.constexpr):
    p = tl.program_id(0)
    distance = row_at(x_ptr, p, D, D) - row_at(x_ptr, p + 1, D, D)
    tl.store(o_ptr + p, tl.sum(distance * distance, 0))


@buggy("oob_load", "x_ptr")
def helper_is_given_one_row_too_many(fixed: bool) -> None:
    pairwise[(4 if fixed else 5,)](torch.rand(5, 16), torch.empty(5), 5, D=16)


_CONFIGS = [triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 64})]


@triton.autotune(configs=_CONFIGS, key=["n"])
@triton.jit
def tuned(x_ptr, o_ptr, n, FIXED: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n if FIXED else None)  # BUG: oob_load
    tl.store(o_ptr + i, x, mask=i < n)


@buggy("oob_load", "x_ptr", all_configs=True)
def one_configuration_overhangs(fixed: bool) -> None:
    tuned[lambda meta: (triton.cdiv(48, meta["BLOCK"]),)](
        torch.rand(48), torch.empty(48), 48, FIXED=fixed
    )


@triton.jit
def copy(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)  # BUG: oob_load


@buggy("oob_load", "x_ptr")
def storage_was_freed_by_resizing(fixed: bool) -> None:
    x = torch.rand(64)
    if not fixed:
        x.untyped_storage().resize_(0)  # sharded training frees weights like this
    try:
        copy[(2,)](x, torch.empty(64), 64, B=32)
    finally:
        x.untyped_storage().resize_(256)  # even printing the tensor raises an error


@triton.jit
def ahead(x_ptr, o_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    acc = tl.zeros((B,), tl.float32)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    for start in range(0, n, B):
        after = start + B + i
        following = tl.load(x_ptr + after, mask=after < n if FIXED else None)  # BUG: oob_load
        acc += tl.where(start + i < n, x, 0.0)
        x = following
    tl.store(o_ptr, tl.sum(acc, 0))


@buggy("oob_load", "x_ptr")
def tile_after_the_last_is_fetched(fixed: bool) -> None:
    ahead[(1,)](torch.rand(60), torch.empty(1), 60, FIXED=fixed, B=16)


@triton.jit
def compacted(x_ptr, n_ptr, o_ptr, room, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    keep = tl.load(x_ptr + i) > 0.5
    at = tl.atomic_add(n_ptr + tl.zeros((B,), tl.int32), 1, mask=keep)
    tl.store(o_ptr + at, i, mask=keep & (at < room) if FIXED else keep)  # BUG: oob_store


@buggy("oob_store", "o_ptr")
def more_are_kept_than_fit(fixed: bool) -> None:
    x, n = torch.arange(128) / 127, torch.zeros(1, dtype=torch.int32)
    compacted[(4,)](x, n, torch.empty(20, dtype=torch.int32), 20, FIXED=fixed, B=32)
