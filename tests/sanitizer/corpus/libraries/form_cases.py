"""Defects in kernels with tuples, nested loops, three axes and persistent programs."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy


@triton.jit
def row_of(pair, row, s, B: tl.constexpr):
    c = tl.arange(0, B)
    return tl.load(pair[0] + row * s[0] + c * s[1])  # BUG: view_oob


@triton.jit
def of_a_tuple(x_ptr, y_ptr, o_ptr, strides, B: tl.constexpr):
    row = tl.program_id(0)
    pair = (x_ptr, y_ptr)
    tl.store(o_ptr + row * B + tl.arange(0, B), row_of(pair, row, strides, B))


@buggy("view_oob", "x_ptr")
def tuple_has_the_strides_of_another_tensor(fixed: bool) -> None:
    x, y = torch.rand(8, 64)[:, :16], torch.rand(8, 16)
    s = x.stride() if fixed else y.stride()
    of_a_tuple[(8,)](x, y, torch.empty(8, 16), s, B=16)


@triton.jit
def persistent_add(x_ptr, o_ptr, tiles, n, FIXED: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    tile = p
    while tile < tiles:
        i = tile * B + tl.arange(0, B)
        x = tl.load(x_ptr + i, mask=i < n, other=0.0) + p
        tl.store(o_ptr + i, x, mask=i < n)  # BUG: overlapping_store
        tile += tl.num_programs(0) if FIXED else tl.num_programs(0) - 1


@buggy("overlapping_store", "o_ptr")
def persistent_programs_take_too_short_steps(fixed: bool) -> None:
    x = torch.rand(1000)
    # Stored values differ between programs, since the output is accumulated.
    persistent_add[(4,)](x, torch.zeros(1000), 8, 1000, FIXED=fixed, B=128)


@triton.jit
def split(a_ptr, c_ptr, K, N: tl.constexpr, B: tl.constexpr):
    part = tl.program_id(0)
    k, n = tl.arange(0, B)[:, None], tl.arange(0, N)[None, :]
    acc = tl.zeros((B, N), tl.float32)
    for first in range(part * B, K, B * tl.num_programs(0)):
        acc += tl.load(a_ptr + (first + k) * N + n, mask=first + k < K, other=0.0)
    tl.atomic_add(c_ptr + tl.arange(0, N), tl.sum(acc, 0))  # BUG: uninit_read


@buggy("uninit_read", "c_ptr")
def parts_are_added_to_an_empty_row(fixed: bool) -> None:
    c = torch.zeros(32) if fixed else torch.empty(32)
    split[(3,)](torch.rand(100, 32), c, 100, N=32, B=16)


@triton.jit
def cube(x_ptr, o_ptr, d, h, w, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)[:, None, None]
    j = tl.arange(0, B)[None, :, None]
    k = tl.arange(0, B)[None, None, :]
    inside = (i < d) & (j < h) & (k < w if FIXED else k < h)
    at = (i * h + j) * w + k
    tl.store(o_ptr + at, tl.load(x_ptr + at, mask=inside, other=0.0), mask=inside)  # BUG: oob_load


@buggy("oob_load", "x_ptr", also=["oob_store", "intra_program_race", "overlapping_store"])
def depth_is_masked_by_the_height(fixed: bool) -> None:
    x = torch.rand(5, 7, 3)
    cube[(1,)](x, torch.zeros(5, 7, 3), 5, 7, 3, FIXED=fixed, B=8)


@triton.jit
def expanded(g_ptr, o_ptr, sm, sn, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tl.store(o_ptr + i * N + j, tl.load(g_ptr + i * sm + j * sn))  # BUG: oob_load


@buggy("oob_load", "g_ptr")
def gradient_of_a_sum_is_assumed_to_be_contiguous(fixed: bool) -> None:
    g = torch.rand(1).expand(8, 16)
    s = g.stride() if fixed else (16, 1)
    expanded[(1,)](g, torch.empty(8, 16), *s, M=8, N=16)


@triton.jit
def banded(x_ptr, o_ptr, n, BAND: tl.constexpr, FIXED: tl.constexpr):
    row = tl.program_id(0)
    acc = 0.0
    for b in range(BAND):
        for side in tl.static_range(2):
            col = row + b if side == 0 else row - b
            ok = col < n if not FIXED else (col < n) & (col >= 0)
            acc += tl.load(x_ptr + col, mask=ok, other=0.0)  # BUG: oob_load
    tl.store(o_ptr + row, acc)


@buggy("oob_load", "x_ptr")
def band_reaches_before_the_first_row(fixed: bool) -> None:
    banded[(20,)](torch.rand(20), torch.empty(20), 20, BAND=3, FIXED=fixed)


@triton.jit
def search(x_ptr, keys_ptr, o_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    key = tl.load(keys_ptr + i)
    low = tl.zeros((B,), tl.int32)
    high = tl.zeros((B,), tl.int32) + n
    for _ in range(8):
        middle = (low + high) // 2
        if FIXED:
            x = tl.load(x_ptr + middle, mask=low < high, other=0.0)
        else:
            x = tl.load(x_ptr + middle)  # BUG: oob_load
        right = (x < key) & (low < high)
        low = tl.where(right, middle + 1, low)
        high = tl.where(right, high, middle)
    tl.store(o_ptr + i, low)


@buggy("oob_load", "x_ptr")
def binary_search_ends_beyond_the_last(fixed: bool) -> None:
    x = torch.arange(100.0)
    keys = torch.linspace(-1, 101, 32)
    search[(1,)](x, keys, torch.empty(32, dtype=torch.int32), 100, FIXED=fixed, B=32)


@triton.jit
def described(x_ptr, o_ptr, m, n, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [m, n], [n, 1], [BM, BN])
    o = tl.make_tensor_descriptor(o_ptr, [m, n], [n, 1], [BM, BN])
    r, c = tl.program_id(0) * BM, tl.program_id(1) * BN
    o.store([r, c], x.load([r, c]) * 2)  # BUG: oob_store


@buggy("oob_store", "o_ptr")
def output_has_fewer_rows_than_described(fixed: bool) -> None:
    x = torch.rand(40, 64)
    o = torch.zeros(40 if fixed else 36, 64)
    described[(3, 2)](x, o, 40, 64, BM=16, BN=32)


@triton.jit
def ordered(x_ptr, o_ptr, flag_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    if tl.program_id(0) == 0:
        tl.store(o_ptr + i, tl.load(x_ptr + i))  # BUG: race
        tl.debug_barrier()
        if FIXED:
            tl.atomic_xchg(flag_ptr, 1, sem="release")
        else:
            tl.atomic_xchg(flag_ptr, 1, sem="relaxed")
    else:
        while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:
            pass
        tl.debug_barrier()
        y = tl.load(o_ptr + i)  # BUG: race
        tl.store(x_ptr + B + i, y)


@buggy("race", "o_ptr")
def flag_is_raised_relaxed(fixed: bool) -> None:
    flag = torch.zeros(1, dtype=torch.int32)
    ordered[(2,)](torch.rand(128), torch.zeros(64), flag, FIXED=fixed, B=64)


@triton.jit
def strided_tiles(o_ptr, pitch, FIXED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    i, j = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    step = BN if FIXED else BN - 1
    at = o_ptr + i * pitch + tl.program_id(0) * step + j
    tl.store(at, i * 1.0 + tl.program_id(0) + j * 0)  # BUG: overlapping_store


@buggy("overlapping_store", "o_ptr")
def tiles_beside_each_other_share_a_column(fixed: bool) -> None:
    strided_tiles[(4,)](torch.zeros(16, 64), 64, FIXED=fixed, BM=16, BN=16)


@triton.jit
def last_row(o_ptr, pitch, rows, FIXED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    p = tl.program_id(0)
    i, j = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    first = p * BM if FIXED else p * (BM - 1)
    mask = (first + i < rows) & (j < BN)
    tl.store(o_ptr + (first + i) * pitch + j, p + i * 1.0 + j, mask=mask)  # BUG: overlapping_store


@buggy("overlapping_store", "o_ptr")
def tiles_below_each_other_share_a_row(fixed: bool) -> None:
    last_row[(4,)](torch.zeros(64, 48), 48, 64, FIXED=fixed, BM=16, BN=16)


@triton.jit
def wide(x_ptr, o_ptr, rows, stride, FIXED: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0) + rows
    if FIXED:
        r = r.to(tl.int64)
    off = r * stride  # BUG: int_overflow
    i = tl.arange(0, B)
    tl.store(
        o_ptr + tl.program_id(0) * B + i, tl.load(x_ptr + (off - rows * stride.to(tl.int64)) + i)
    )


@buggy("int_overflow", "x_ptr", also=["oob_load"])
def row_times_stride_wraps_in_a_difference(fixed: bool) -> None:
    wide[(2,)](torch.rand(1 << 17), torch.empty(2, 16), 40000, 60000, FIXED=fixed, B=16)


@triton.jit
def chosen(a_ptr, b_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    ptr = a_ptr
    if tl.program_id(0) % 2 == 1:
        ptr = b_ptr
    x = tl.load(ptr + i, mask=i < n, other=0.0)  # BUG: oob_load
    tl.store(o_ptr + tl.program_id(0) * B + i, x)


@buggy("oob_load", "b_ptr")
def one_of_two_tensors_is_shorter(fixed: bool) -> None:
    chosen[(4,)](torch.rand(50), torch.rand(50 if fixed else 40), torch.empty(4, 64), 50, B=64)


@triton.jit
def where_pointer(a_ptr, b_ptr, o_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    p = tl.where(i < n, a_ptr + i, b_ptr + i - n)
    tl.store(o_ptr + i, tl.load(p, mask=i < (2 * n if FIXED else B), other=0.0))  # BUG: oob_load


@buggy("oob_load", "b_ptr")
def concatenation_of_two_rows_overhangs(fixed: bool) -> None:
    where_pointer[(1,)](torch.rand(20), torch.rand(20), torch.empty(64), 20, FIXED=fixed, B=64)


@triton.jit
def spin(lock_ptr, x_ptr, FIXED: tl.constexpr):
    while tl.atomic_cas(lock_ptr, 0, 1, sem="acquire") == 1:
        pass
    x = tl.load(x_ptr)  # BUG: race
    tl.store(x_ptr, x + 1.0)  # BUG: race
    if FIXED:
        tl.atomic_xchg(lock_ptr, 0, sem="release")
    else:
        tl.atomic_xchg(lock_ptr, 0, sem="relaxed")


@buggy("race", "x_ptr", also=["overlapping_store"])
def lock_is_released_relaxed(fixed: bool) -> None:
    spin[(4,)](torch.zeros(1, dtype=torch.int32), torch.zeros(1), FIXED=fixed)


@triton.jit
def ticketed(next_ptr, x_ptr, o_ptr, n, FIXED: tl.constexpr, B: tl.constexpr):
    t = tl.atomic_add(next_ptr, 1)
    while t < n:
        i = tl.arange(0, B)
        tl.store(o_ptr + t * B + i, tl.load(x_ptr + t * B + i) + tl.program_id(0))  # BUG: oob_load
        t = tl.atomic_add(next_ptr, 1) if FIXED else tl.atomic_add(next_ptr, 1) + 1


@buggy("oob_load", "x_ptr", also=["oob_store", "overlapping_store"])
def tickets_run_past_the_last_tile(fixed: bool) -> None:
    n = 8 if fixed else 9
    ticketed[(3,)](
        torch.zeros(1, dtype=torch.int32),
        torch.rand(8, 32),
        torch.empty(8, 32),
        n,
        FIXED=fixed,
        B=32,
    )


@triton.jit
def jagged(x_ptr, cu_ptr, o_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    p = tl.program_id(0)
    begin, end = tl.load(cu_ptr + p), tl.load(cu_ptr + p + 1)
    pos = begin
    total = 0.0
    while pos < end:
        i = pos + tl.arange(0, B)
        keep = i < end if FIXED else i < end + 1
        x = tl.load(x_ptr + i, mask=keep, other=0.0)  # BUG: oob_load
        total += tl.sum(x)
        pos += B
    tl.store(o_ptr + p, total)


@buggy("oob_load", "x_ptr")
def last_row_of_a_jagged_batch_reads_on(fixed: bool) -> None:
    cu = torch.tensor([0, 5, 5, 40, 47], dtype=torch.int32)
    jagged[(4,)](torch.rand(47), cu, torch.empty(4), FIXED=fixed, B=16)


@triton.jit
def conv(x_ptr, w_ptr, o_ptr, h, w, FIXED: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    acc = tl.zeros((B,), tl.float32)
    for dy in tl.static_range(-1, 2):
        for dx in tl.static_range(-1, 2):
            y, x = r + dy, c + dx
            ok = (y >= 0) & (y < h) & (x >= 0) & (x < w)
            if not FIXED:
                ok = (y >= 0) & (y <= h) & (x >= 0) & (x < w)
            v = tl.load(x_ptr + y * w + x, mask=ok, other=0.0)  # BUG: oob_load
            acc += v * tl.load(w_ptr + (dy + 1) * 3 + dx + 1)
    tl.store(o_ptr + r * w + c, acc, mask=c < w)


@buggy("oob_load", "x_ptr")
def convolution_reads_a_row_below(fixed: bool) -> None:
    conv[(9,)](torch.rand(9, 20), torch.rand(9), torch.empty(9, 20), 9, 20, FIXED=fixed, B=32)
