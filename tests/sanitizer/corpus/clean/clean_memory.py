"""Correct accesses that look like defects: masked tails, views, tables, descriptors, padding."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import clean, noted


@triton.jit
def tail_branch(x_ptr, o_ptr, n, B: tl.constexpr):
    p = tl.program_id(0)
    i = p * B + tl.arange(0, B)
    if (p + 1) * B <= n:
        tl.store(o_ptr + i, tl.load(x_ptr + i) + 1)
    else:
        tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)


@clean
def whole_tiles_without_a_mask() -> None:
    tail_branch[(4,)](torch.rand(100), torch.empty(100), 100, B=32)


@triton.jit
def clamped(x_ptr, o_ptr, h, w, B: tl.constexpr):
    y = tl.program_id(0)
    c = tl.arange(0, B)
    acc = tl.zeros((B,), tl.float32)
    for dy in range(-1, 2):
        row = tl.minimum(tl.maximum(y + dy, 0), h - 1)
        for dx in range(-1, 2):
            column = tl.minimum(tl.maximum(c + dx, 0), w - 1)
            acc += tl.load(x_ptr + row * w + column)
    tl.store(o_ptr + y * w + c, acc / 9, mask=c < w)


@clean
def borders_are_clamped() -> None:
    clamped[(10,)](torch.rand(10, 20), torch.empty(10, 20), 10, 20, B=32)


@triton.jit
def by_strides(x_ptr, o_ptr, m, n, sm, sn, B: tl.constexpr):
    r, c = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    mask = (r < m) & (c < n)
    x = tl.load(x_ptr + r * sm + c * sn, mask=mask, other=0.0)
    tl.store(o_ptr + r * n + c, x, mask=mask)


@clean
def views_of_every_kind() -> None:
    buffer = torch.rand(24, 40)
    for view in (
        buffer[:12, :9].T,
        buffer[3:15:2, ::3],
        buffer[5:6].expand(7, 40)[:, :14],
        buffer[:, 7:8].expand(24, 10)[:16],
        buffer.unfold(1, 5, 2)[2],
    ):
        m, n = view.shape
        o = torch.empty(m, n)
        by_strides[(1,)](view, o, m, n, *view.stride(), B=32)
        torch.testing.assert_close(o, view)


@triton.jit
def copied(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@clean
def unwritten_padding_is_copied() -> None:
    x, o = torch.empty(100), torch.empty(100)
    x[:60] = 1.0
    copied[(4,)](x, o, 100, B=32)
    copied[(2,)](o, torch.empty(60), 60, B=32)


@triton.jit
def squares(x_ptr, w_ptr, o_ptr, n, B: tl.constexpr):
    p = tl.program_id(0)
    i = p * B + tl.arange(0, B)
    tl.store(w_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0.0) * 2, mask=i < n)
    tl.store(o_ptr + i, tl.load(w_ptr + i, mask=i < n), mask=i < n)


@clean
def workspace_is_written_before_it_is_read() -> None:
    x = torch.rand(90)
    squares[(3,)](x, torch.empty(128), torch.empty(90), 90, B=32)


@triton.jit
def boxes(x_ptr, o_ptr, m, n, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [m, n], [n, 1], [BM, BN])
    o = tl.make_tensor_descriptor(o_ptr, [m, n], [n, 1], [BM, BN])
    r, c = tl.program_id(0) * BM - 1, tl.program_id(1) * BN
    o.store([r + 1, c], x.load([r, c]) + x.load([r + 2, c]))


@clean
def descriptors_fill_what_is_outside() -> None:
    x, o = torch.rand(20, 28), torch.empty(20, 28)
    boxes[(2, 2)](x, o, 20, 28, BM=16, BN=16)
    padded = torch.nn.functional.pad(x, (0, 0, 1, 1))
    torch.testing.assert_close(o, padded[:-2] + padded[2:])


@triton.jit
def grouped(table_ptr, size_ptr, o_ptr, B: tl.constexpr):
    g = tl.program_id(0)
    x = tl.load(table_ptr + g).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, B)
    tl.store(o_ptr + g, tl.sum(tl.load(x + i, mask=i < tl.load(size_ptr + g), other=0.0), 0))


@clean
def slices_in_a_table() -> None:
    buffer = torch.rand(100)
    views = [buffer[:13], buffer[50:57], torch.rand(16)]
    table = torch.tensor([v.data_ptr() for v in views])
    sizes = torch.tensor([v.numel() for v in views], dtype=torch.int32)
    o = torch.empty(3)
    grouped[(3,)](table, sizes, o, B=16)
    torch.testing.assert_close(o, torch.stack([v.sum() for v in views]))


@triton.jit
def lanes_meet(x_ptr, o_ptr, n, B: tl.constexpr):
    r = tl.arange(0, B)[:, None]
    c = tl.arange(0, B)[None, :]
    x = tl.load(x_ptr + r + c * 0)
    tl.store(o_ptr + r + c * 0, x)


@noted
def lanes_store_equal_values_to_one_element() -> None:
    lanes_meet[(1,)](torch.rand(16), torch.empty(16), 16, B=16)


@triton.jit
def ragged(x_ptr, cu_ptr, o_ptr, B: tl.constexpr):
    s = tl.program_id(0)
    start, end = tl.load(cu_ptr + s), tl.load(cu_ptr + s + 1)
    total = 0.0
    for first in range(start, end, B):
        i = first + tl.arange(0, B)
        total += tl.sum(tl.load(x_ptr + i, mask=i < end, other=0.0), 0)
    tl.store(o_ptr + s, total)


@clean
def ragged_rows() -> None:
    cu = torch.tensor([0, 5, 5, 40, 41], dtype=torch.int32)
    ragged[(4,)](torch.rand(41), cu, torch.empty(4), B=16)


@triton.jit
def looked_up(index_ptr, weight_ptr, o_ptr, rows, D: tl.constexpr):
    p = tl.program_id(0)
    d = tl.arange(0, D)
    row = tl.load(index_ptr + p)
    row = tl.where(row < 0, row + rows, row)
    inside = (row >= 0) & (row < rows)
    w = tl.load(weight_ptr + row * D + d, mask=inside & (d < D), other=0.0)
    tl.store(o_ptr + p * D + d, w)


@clean
def negative_indices_count_from_the_end() -> None:
    index = torch.tensor([0, -1, 99, -7, 4])
    looked_up[(5,)](index, torch.rand(5, 16), torch.empty(5, 16), 5, D=16)


@triton.jit
def packed(w_ptr, o_ptr, k, B: tl.constexpr):
    i = tl.arange(0, B)
    byte = tl.load(w_ptr + i // 2, mask=i < k, other=0)
    tl.store(o_ptr + i, (byte >> ((i % 2) * 4)) & 15, mask=i < k)


@clean
def nibbles() -> None:
    w = torch.randint(0, 127, (24,), dtype=torch.int8)
    packed[(1,)](w, torch.empty(48, dtype=torch.int8), 48, B=64)


@clean
def buffers_of_which_only_a_part_is_used() -> None:
    buffer = torch.empty(4, 64)
    for row in range(3):
        copied[(2,)](torch.rand(40), buffer[row], 40, B=32)
    copied[(1,)](torch.rand(20), buffer, 20, B=32)
    assert (buffer[:3, :40] <= 1).all()
    assert buffer[3:].shape == (1, 64)
    inside = (torch.arange(64) < 40) & (torch.arange(4)[:, None] < 3)
    torch.where(inside, buffer, 0.0).sum()
    buffer[inside].sum()
    buffer[:, 40:] = 0
    buffer[3] = 0
    buffer.sum()


@triton.jit
def strided_copy(x_ptr, o_ptr, n, s, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + i * s, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def strided_total(x_ptr, o_ptr, n, s, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr, tl.sum(tl.load(x_ptr + i * s, mask=i < n, other=0).to(tl.float32)))


@clean
def written_bytes_of_any_value_between_unwritten_ones() -> None:
    x = torch.arange(1024, dtype=torch.int32).to(torch.uint8)
    o = torch.empty(3 * 1024, dtype=torch.uint8)[::3]
    strided_copy[(8,)](x, o, 1024, 3, B=128)
    strided_total[(1,)](o, torch.empty(1), 1024, 3, B=1024)
    assert o.float().sum().item() == x.float().sum().item()
