"""Programs that share memory and are ordered, or whose order does not matter."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import clean, noted


@triton.jit
def taken_in_turn(x_ptr, o_ptr, lock_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + tl.program_id(0) * B + i)
    while tl.atomic_cas(lock_ptr, 0, 1, sem="acquire") == 1:
        pass
    tl.debug_barrier()
    tl.store(o_ptr + i, tl.load(o_ptr + i) + x)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0, sem="release")


@clean
def sums_under_a_lock() -> None:
    x, o = torch.rand(8, 64), torch.zeros(64)
    taken_in_turn[(8,)](x, o, torch.zeros(1, dtype=torch.int32), B=64)
    torch.testing.assert_close(o, x.sum(0))


@triton.jit
def first_or_not(x_ptr, part_ptr, lock_ptr, count_ptr, G: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    g = p % G
    i = tl.arange(0, B)
    x = tl.load(x_ptr + p * B + i)
    while tl.atomic_cas(lock_ptr + g, 0, 1) == 1:
        pass
    count = tl.load(count_ptr + g)
    if count == 0:
        tl.atomic_xchg(count_ptr + g, 1)
    else:
        x += tl.load(part_ptr + g * B + i)
    tl.store(part_ptr + g * B + i, x)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr + g, 0)


@clean
def partial_sums_of_a_backward_pass() -> None:
    lock, count = torch.zeros(3, dtype=torch.int32), torch.zeros(3, dtype=torch.int32)
    part, x = torch.empty(3, 32), torch.rand(9, 32)
    first_or_not[(9,)](x, part, lock, count, G=3, B=32)
    torch.testing.assert_close(part.sum(0), x.sum(0))


@triton.jit
def look_back(x_ptr, sum_ptr, flag_ptr, o_ptr, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    x = tl.load(x_ptr + p * B + i)
    before = 0.0
    if p > 0:
        while tl.atomic_add(flag_ptr + p - 1, 0, sem="acquire") == 0:
            pass
        tl.debug_barrier()
        before = tl.load(sum_ptr + p - 1)
    tl.store(sum_ptr + p, before + tl.sum(x, 0))
    tl.debug_barrier()
    tl.atomic_xchg(flag_ptr + p, 1, sem="release")
    tl.store(o_ptr + p * B + i, before + tl.cumsum(x, 0))


@clean
def prefix_sum_in_one_pass() -> None:
    x, o = torch.rand(128), torch.empty(128)
    look_back[(4,)](x, torch.empty(4), torch.zeros(4, dtype=torch.int32), o, B=32)
    torch.testing.assert_close(o, x.cumsum(0))


@triton.jit
def last_one(x_ptr, part_ptr, count_ptr, o_ptr, N: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    tl.store(part_ptr + p * B + i, tl.load(x_ptr + p * B + i) * 2)
    tl.debug_barrier()
    if tl.atomic_add(count_ptr, 1, sem="acq_rel") == N - 1:
        tl.debug_barrier()
        g = tl.arange(0, N)
        tl.store(o_ptr + i, tl.sum(tl.load(part_ptr + g[:, None] * B + i[None, :]), 0))
        tl.atomic_xchg(count_ptr, 0)


@clean
def last_block_reduces() -> None:
    count, x, o = torch.zeros(1, dtype=torch.int32), torch.rand(4, 64), torch.empty(64)
    for _ in range(2):
        last_one[(4,)](x, torch.empty(4, 64), count, o, N=4, B=64)
    torch.testing.assert_close(o, 2 * x.sum(0))


@triton.jit
def drawn(x_ptr, next_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tile = tl.atomic_add(next_ptr, 1)
    while tile < n:
        tl.store(o_ptr + tile * B + i, tl.load(x_ptr + tile * B + i) + 1)
        tile = tl.atomic_add(next_ptr, 1)


@clean
def tiles_are_taken_from_a_counter() -> None:
    x, o = torch.rand(10 * 16), torch.empty(160)
    drawn[(3,)](x, torch.zeros(1, dtype=torch.int32), o, 10, B=16)
    torch.testing.assert_close(o, x + 1)


@triton.jit
def split(a_ptr, b_ptr, part_ptr, K, S: tl.constexpr, B: tl.constexpr):
    s = tl.program_id(0)
    i = tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for start in range(s * B, K, S * B):
        k = start + i
        a = tl.load(a_ptr + i[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
        b = tl.load(b_ptr + k[:, None] * B + i[None, :], mask=k[:, None] < K, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(part_ptr + s * B * B + i[:, None] * B + i[None, :], acc)


@triton.jit
def joined(part_ptr, o_ptr, S: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    s = tl.arange(0, S)
    tl.store(o_ptr + i, tl.sum(tl.load(part_ptr + s[:, None] * 256 + i[None, :]), 0))


@clean
def split_k_with_a_workspace() -> None:
    a, b, o = torch.rand(16, 50), torch.rand(50, 16), torch.empty(16, 16)
    part = torch.empty(2, 16, 16)
    split[(2,)](a, b, part, 50, S=2, B=16)
    joined[(4,)](part, o, S=2, N=64)
    torch.testing.assert_close(o, a @ b)


@triton.jit
def histogram(x_ptr, bins_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    tl.atomic_add(bins_ptr + x, 1, mask=i < n, sem="relaxed")


@clean
def histogram_with_atomics() -> None:
    x = torch.arange(100) % 7
    bins = torch.zeros(7, dtype=torch.int32)
    histogram[(4,)](x, bins, 100, B=32)
    assert bins.tolist() == [15, 15, 14, 14, 14, 14, 14]


@triton.jit
def flagged(x_ptr, found_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    if tl.max(x, 0) > 0.5:
        tl.store(found_ptr, 1)


@noted
def all_programs_raise_the_same_flag() -> None:
    found = torch.zeros(1, dtype=torch.int32)
    flagged[(3,)](torch.ones(90), found, 90, B=32)
    assert found.item() == 1


@triton.jit
def shared_row(x_ptr, sum_ptr, o_ptr, n, B: tl.constexpr):
    r, part = tl.program_id(0), tl.program_id(1)
    c = tl.arange(0, B)
    total = tl.sum(tl.load(x_ptr + r * n + c, mask=c < n, other=0.0), 0)
    tl.store(sum_ptr + r, total)
    half = part * (B // 2) + tl.arange(0, B // 2)
    x = tl.load(x_ptr + r * n + half, mask=half < n, other=0.0)
    tl.store(o_ptr + r * n + half, x / total, mask=half < n)


@noted
def statistics_are_stored_by_each_part() -> None:
    x, o = torch.rand(3, 30), torch.empty(3, 30)
    shared_row[(3, 2)](x, torch.empty(3), o, 30, B=32)
    torch.testing.assert_close(o, x / x.sum(1, keepdim=True))


@triton.jit
def in_place(x_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(x_ptr + i, x * tl.sigmoid(x), mask=i < n)


@clean
def activation_in_place() -> None:
    in_place[(4,)](torch.rand(100), 100, B=32)


@triton.jit
def rotated(x_ptr, cos_ptr, sin_ptr, s, H: tl.constexpr):
    r = tl.program_id(0)
    h = tl.arange(0, H)
    first = tl.load(x_ptr + r * s + h)
    second = tl.load(x_ptr + r * s + H + h)
    cos, sin = tl.load(cos_ptr + h), tl.load(sin_ptr + h)
    tl.store(x_ptr + r * s + h, first * cos - second * sin)
    tl.store(x_ptr + r * s + H + h, second * cos + first * sin)


@clean
def rotary_embedding_in_place() -> None:
    x = torch.rand(5, 64)
    angle = torch.rand(32)
    rotated[(5,)](x, angle.cos(), angle.sin(), 64, H=32)


@triton.jit
def swapped(x_ptr, s, B: tl.constexpr):
    i, j = tl.program_id(0), tl.program_id(1)
    if i <= j:
        a, b = i * B + tl.arange(0, B), j * B + tl.arange(0, B)
        upper = tl.load(x_ptr + a[:, None] * s + b[None, :])
        lower = tl.load(x_ptr + b[:, None] * s + a[None, :])
        tl.store(x_ptr + b[:, None] * s + a[None, :], tl.trans(upper))
        if i < j:
            tl.store(x_ptr + a[:, None] * s + b[None, :], tl.trans(lower))


@clean
def tiles_are_swapped() -> None:
    x = torch.rand(48, 48)
    expected = x.T.clone()
    swapped[(3, 3)](x, 48, B=16)
    torch.testing.assert_close(x, expected)


@triton.jit
def tree(x_ptr, s_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(s_ptr + i, tl.load(x_ptr + i))
    width = B // 2
    while width > 0:
        tl.debug_barrier()
        other = tl.load(s_ptr + i + width, mask=i < width, other=0.0)
        own = tl.load(s_ptr + i, mask=i < width, other=0.0)
        tl.debug_barrier()
        tl.store(s_ptr + i, own + other, mask=i < width)
        width = width // 2
    tl.debug_barrier()
    tl.store(o_ptr, tl.load(s_ptr))


@clean
def tree_through_memory() -> None:
    x, o = torch.rand(256), torch.empty(1)
    tree[(1,)](x, torch.empty(256), o, B=256)
    torch.testing.assert_close(o[0], x.sum())


@triton.jit
def published(x_ptr, data_ptr, flag_ptr, o_ptr, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    if p == 0:
        tl.store(data_ptr + i, tl.load(x_ptr + i) * 2)
        tl.debug_barrier()
        tl.atomic_xchg(flag_ptr, 1, sem="release")
    else:
        while tl.load(flag_ptr, volatile=True) == 0:
            pass
        tl.atomic_add(flag_ptr, 0, sem="acquire")
        tl.debug_barrier()
        tl.store(o_ptr + p * B + i, tl.load(data_ptr + i))


@clean
def volatile_poll_and_acquire() -> None:
    x, o = torch.rand(32), torch.empty(3, 32)
    published[(3,)](x, torch.empty(32), torch.zeros(1, dtype=torch.int32), o, B=32)
    torch.testing.assert_close(o[1], 2 * x)


@triton.jit
def best(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=-1)
    tl.atomic_max(o_ptr, tl.max(x, 0))
    tl.atomic_min(o_ptr + 1, tl.min(tl.where(i < n, x, 2**30), 0))


@clean
def extremes_with_atomics() -> None:
    x, o = torch.randint(0, 99, (100,), dtype=torch.int32), torch.tensor([-1, 2**30])
    o = o.to(torch.int32)
    best[(4,)](x, o, 100, B=32)
    assert o.tolist() == [x.max().item(), x.min().item()]


@triton.jit
def scattered(x_ptr, index_ptr, o_ptr, D: tl.constexpr):
    p = tl.program_id(0)
    d = tl.arange(0, D)
    row = tl.load(index_ptr + p)
    if row >= 0:
        tl.store(o_ptr + row * D + d, tl.load(x_ptr + p * D + d))


@clean
def rows_go_to_their_own_slots() -> None:
    index = torch.tensor([3, -1, 0, 2, -1, 1])
    scattered[(6,)](torch.rand(6, 16), index, torch.zeros(4, 16), D=16)


@triton.jit
def under_a_gate(x_ptr, lock_ptr, gate_ptr):
    first = tl.program_id(0) % 2
    second = 1 - first
    while tl.atomic_cas(gate_ptr, 0, 1) == 1:
        pass
    while tl.atomic_cas(lock_ptr + first, 0, 1) == 1:
        pass
    while tl.atomic_cas(lock_ptr + second, 0, 1) == 1:
        pass
    tl.debug_barrier()
    tl.store(x_ptr, tl.load(x_ptr) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr + second, 0)
    tl.atomic_xchg(lock_ptr + first, 0)
    tl.atomic_xchg(gate_ptr, 0)


@clean
def opposite_orders_under_a_third_lock() -> None:
    lock, gate = torch.zeros(2, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    under_a_gate[(6,)](torch.zeros(1), lock, gate)


@triton.jit
def through_a_table(table_ptr, done_ptr, o_ptr, B: tl.constexpr):
    g = tl.program_id(0)
    x = tl.load(table_ptr + g).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, B)
    tl.store(x + i, tl.load(x + i) + 1)
    tl.store(done_ptr, 1)
    tl.store(o_ptr + g, g)


@noted
def the_same_flag_beside_pointers_from_a_table() -> None:
    tensors = [torch.zeros(16) for _ in range(3)]
    table = torch.tensor([x.data_ptr() for x in tensors])
    done, o = torch.zeros(1, dtype=torch.int32), torch.empty(3, dtype=torch.int32)
    through_a_table[(3,)](table, done, o, B=16)
    assert [x.tolist() for x in tensors] == 3 * [16 * [1.0]]
