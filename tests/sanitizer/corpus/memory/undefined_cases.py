"""Values that were never written are used."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy


@triton.jit
def accumulate(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    before = tl.load(o_ptr + i, mask=i < n, other=0.0)  # BUG: uninit_read
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(o_ptr + i, before + x, mask=i < n)


@buggy("uninit_read", "o_ptr")
def sum_begins_with_anything(fixed: bool) -> None:
    make = torch.zeros if fixed else torch.empty
    accumulate[(2,)](torch.rand(50), make(50), 50, B=32)


@triton.jit
def largest(x_ptr, o_ptr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_max(o_ptr, tl.max(tl.load(x_ptr + i), 0))  # BUG: uninit_read


@buggy("uninit_read", "o_ptr")
def maximum_of_anything(fixed: bool) -> None:
    x = torch.randint(0, 99, (64,), dtype=torch.int32)
    o = torch.full((1,), -1, dtype=torch.int32) if fixed else x.new_empty(1)
    largest[(4,)](x, o, B=16)


@triton.jit
def fill(x_ptr, value, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x_ptr + i, value, mask=i < n)


@triton.jit
def total(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0), 0))  # BUG: uninit_read


@buggy("uninit_read", "x_ptr")
def first_kernel_leaves_the_tail(fixed: bool) -> None:
    x, o = torch.empty(100), torch.empty(1)
    fill[(4 if fixed else 3,)](x, 1.0, 100, B=32)
    total[(1,)](x, o, 100, B=128)


@triton.jit
def row_max(x_ptr, o_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    if FIXED:
        x = tl.load(x_ptr + r * n + c, mask=c < n, other=float("-inf"))
    else:
        x = tl.load(x_ptr + r * n + c, mask=c < n)  # BUG: uninit_read
    tl.store(o_ptr + r, tl.max(x, 0))


@buggy("uninit_read", "x_ptr")
def maximum_of_masked_lanes(fixed: bool) -> None:
    row_max[(3,)](-torch.rand(3, 20), torch.empty(3), 20, FIXED=fixed, B=32)


@triton.jit
def product(a_ptr, b_ptr, c_ptr, K, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    inside = i < K
    a = tl.load(a_ptr + i[:, None] * K + i[None, :], mask=inside[None, :], other=0.0)
    at = b_ptr + i[:, None] * B + i[None, :]
    if FIXED:
        b = tl.load(at, mask=inside[:, None], other=0.0)
    else:
        b = tl.load(at, mask=inside[:, None])  # BUG: uninit_read
    tl.store(c_ptr + i[:, None] * B + i[None, :], tl.dot(a, b, input_precision="ieee"))


@buggy("uninit_read", "b_ptr")
def garbage_rows_times_zeros(fixed: bool) -> None:
    # Zeros in the other factor do not remove undefined values: 0 * inf and 0 * nan are nan.
    product[(1,)](
        torch.rand(16, 10), torch.rand(10, 16), torch.empty(16, 16), 10, FIXED=fixed, B=16
    )


@triton.jit
def looked_up(index_ptr, x_ptr, o_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    index = tl.load(index_ptr + i, mask=i < n)  # BUG: uninit_read
    x = tl.load(x_ptr + index, mask=i < n) if FIXED else tl.load(x_ptr + index)
    tl.store(o_ptr + i, x, mask=i < n)


@buggy("uninit_read", "index_ptr")
def masked_index_becomes_an_address(fixed: bool) -> None:
    index = torch.arange(20) % 7
    looked_up[(1,)](index, torch.rand(7), torch.empty(20), 20, FIXED=fixed, B=32)


@triton.jit
def widened(x_ptr, o_ptr, n, m, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    if FIXED:
        x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    else:
        x = tl.load(x_ptr + i, mask=i < n)  # BUG: uninit_read
    tl.store(o_ptr + i, x, mask=i < m)


@buggy("uninit_read", "x_ptr")
def stored_further_than_loaded(fixed: bool) -> None:
    widened[(1,)](torch.rand(20), torch.empty(30), 20, 30, FIXED=fixed, B=32)


@triton.jit
def until(x_ptr, o_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    if FIXED:
        x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    else:
        x = tl.load(x_ptr + i, mask=i < n)  # BUG: uninit_read
    steps = 0
    while tl.max(x, 0) > 0.1:
        x = x * 0.5
        steps += 1
    tl.store(o_ptr, steps)


@buggy("uninit_read", "x_ptr")
def masked_lanes_end_a_loop(fixed: bool) -> None:
    o = torch.empty(1, dtype=torch.int32)
    until[(1,)](torch.rand(20), o, 20, FIXED=fixed, B=32)


@triton.jit
def workspace(x_ptr, w_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, B)
    if FIXED or p % 2 == 0:
        tl.store(w_ptr + p * B + i, tl.load(x_ptr + p * B + i))
    y = tl.load(w_ptr + p * B + i)  # BUG: uninit_read
    tl.store(o_ptr + p * B + i, y * 2)


@buggy("uninit_read", "w_ptr")
def workspace_of_odd_programs(fixed: bool) -> None:
    x, o = torch.rand(64), torch.empty(64)
    workspace[(4,)](x, torch.empty_like(x), o, FIXED=fixed, B=16)


@triton.jit
def gated(gate_ptr, x_ptr, o_ptr, B: tl.constexpr):
    p = tl.program_id(0)
    if tl.load(gate_ptr + p) > 0:  # BUG: uninit_read
        i = p * B + tl.arange(0, B)
        tl.store(o_ptr + i, tl.load(x_ptr + i))


@buggy("uninit_read", "gate_ptr")
def branch_on_anything(fixed: bool) -> None:
    gate = torch.empty(4, dtype=torch.int32)
    if fixed:
        gate.fill_(1)
    gated[(4,)](gate, torch.rand(64), torch.zeros(64), B=16)


@triton.jit
def strided_rows(x_ptr, o_ptr, n, s, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    x = tl.load(x_ptr + r * s + c, mask=c < n, other=0.0)  # BUG: uninit_read
    tl.store(o_ptr + r, tl.sum(x, 0))


@buggy("uninit_read", "x_ptr")
def rows_that_were_never_copied(fixed: bool) -> None:
    buffer = torch.empty(6, 16)
    rows = torch.rand(6, 16)
    buffer[: 6 if fixed else 4].copy_(rows[: 6 if fixed else 4])
    strided_rows[(6,)](buffer, torch.empty(6), 16, 16, B=16)


@triton.jit
def scanned(x_ptr, o_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    at = n - 1 - i
    x = tl.load(x_ptr + at, mask=at >= 0)  # BUG: uninit_read
    if FIXED:
        x = tl.where(at >= 0, x, 0.0)
    tl.store(o_ptr + i, tl.cumsum(x, 0, reverse=True), mask=i < n)


@buggy("uninit_read", "x_ptr")
def masked_lanes_in_a_scan(fixed: bool) -> None:
    scanned[(1,)](torch.rand(20), torch.empty(20), 20, FIXED=fixed, B=32)


@triton.jit
def permuted(x_ptr, index_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    index = tl.load(index_ptr + i)
    if FIXED:
        index = index % B
    y = tl.gather(x, index, 0)  # BUG: oob_gather
    tl.store(o_ptr + i, y)


@buggy("oob_gather", None)
def gathered_beyond_the_axis(fixed: bool) -> None:
    index = torch.arange(16, dtype=torch.int32) + 1
    permuted[(1,)](torch.rand(16), index, torch.empty(16), FIXED=fixed, B=16)


@triton.jit
def neighbours(x_ptr, o_ptr, FIXED: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    before = at % N - 1
    y = tl.gather(x, before, 1)  # BUG: oob_gather
    if FIXED:
        y = tl.where(before >= 0, y, 0.0)
    tl.store(o_ptr + at, y + x)


@buggy("oob_gather", None)
def gathered_before_the_axis(fixed: bool) -> None:
    neighbours[(1,)](torch.rand(8, 16), torch.empty(8, 16), FIXED=fixed, M=8, N=16)


@triton.jit
def binned(x_ptr, o_ptr, n, FIXED: tl.constexpr, B: tl.constexpr, BINS: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=-1)
    if FIXED:
        h = tl.histogram(x, BINS, mask=(x >= 0) & (x < BINS))
    else:
        h = tl.histogram(x, BINS, mask=i < n)  # BUG: oob_bin
    tl.store(o_ptr + tl.arange(0, BINS), h)


@buggy("oob_bin", None)
def largest_value_has_no_bin(fixed: bool) -> None:
    x = torch.arange(17, dtype=torch.int32)
    binned[(1,)](x, torch.empty(16, dtype=torch.int32), 17, FIXED=fixed, B=32, BINS=16)


@triton.jit
def halved(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(o_ptr + i, x / 2, mask=i < n)  # BUG: unwritten_output


@buggy("unwritten_output", "o_ptr")
def grid_is_rounded_down(fixed: bool) -> None:
    o = torch.empty(100)
    halved[(triton.cdiv(100, 32) if fixed else 100 // 32,)](torch.rand(100), o, 100, B=32)
    o.mean()


@buggy("unwritten_output", "o_ptr")
def the_wrong_buffer_is_returned(fixed: bool) -> None:
    halves, quarters = torch.empty(2, 50), torch.empty(2, 50)
    halved[(2,)](torch.rand(50), halves[0], 50, B=32)
    halved[(2,)](halves[0], quarters if fixed else halves[1], 50, B=32)
    halved[(1,)](torch.rand(50), quarters, 10, B=32)
    quarters[0].mean()
