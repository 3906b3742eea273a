"""Accesses through pointers that kernels load from memory."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from catalogue import buggy


def addresses(tensors: list[torch.Tensor]) -> torch.Tensor:
    return torch.tensor([x.data_ptr() for x in tensors])


@triton.jit
def doubled(in_ptr, out_ptr, len_ptr, FIXED: tl.constexpr, B: tl.constexpr):
    g = tl.program_id(0)
    x = tl.load(in_ptr + g).to(tl.pointer_type(tl.float32))
    o = tl.load(out_ptr + g).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, B)
    mask = i < (tl.load(len_ptr + g) if FIXED else tl.load(len_ptr))
    tl.store(o + i, 2 * tl.load(x + i, mask=mask, other=0.0), mask=mask)  # BUG: oob_store


@buggy("oob_store", "out_ptr", also=["oob_load"])
def length_of_the_first_group(fixed: bool) -> None:
    sizes = [16, 7, 12]
    inputs = [torch.rand(n) for n in sizes]
    outputs = [torch.empty(n) for n in sizes]
    lengths = torch.tensor(sizes, dtype=torch.int32)
    doubled[(3,)](addresses(inputs), addresses(outputs), lengths, FIXED=fixed, B=16)


@triton.jit
def summed(table_ptr, o_ptr, B: tl.constexpr):
    g = tl.program_id(0)
    x = tl.load(table_ptr + g).to(tl.pointer_type(tl.float32))
    tl.store(o_ptr + g, tl.sum(tl.load(x + tl.arange(0, B)), 0))  # BUG: use_after_free


@buggy("use_after_free", "table_ptr")
def table_outlives_its_tensors(fixed: bool) -> None:
    tensors = [torch.full((4096,), float(n)) for n in range(3)]
    table = addresses(tensors)
    if not fixed:
        del tensors[1]
    summed[(3,)](table, torch.empty(3), B=32)


@triton.jit
def first_of(table_ptr, o_ptr):
    g = tl.program_id(0)
    x = tl.load(table_ptr + g).to(tl.pointer_type(tl.float32))
    tl.store(o_ptr + g, tl.load(x))  # BUG: oob_load


@buggy("oob_load", "table_ptr")
def table_has_an_empty_slot(fixed: bool) -> None:
    tensors = [torch.ones(4), torch.ones(4)]
    table = addresses([*tensors, tensors[0]])
    if not fixed:
        table[2] = 0
    first_of[(3,)](table, torch.empty(3))


@triton.jit
def from_number(address: tl.int64, o_ptr, n, B: tl.constexpr):
    x = address.to(tl.pointer_type(tl.float32))
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x + i, mask=i < n, other=0.0))  # BUG: oob_load


@buggy("oob_load", "address")
def address_is_passed_as_a_number(fixed: bool) -> None:
    x = torch.rand(50)
    from_number[(1,)](x.data_ptr(), torch.empty(64), 50 if fixed else 60, B=64)


@triton.jit
def update_each(table_ptr, x_ptr, D: tl.constexpr):
    o_ptr = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    d = tl.arange(0, D)
    x = tl.load(x_ptr + d)
    tl.store(o_ptr + d, tl.load(o_ptr + d) + x)  # BUG: race


@buggy("race", "table_ptr", also=["overlapping_store"])
def tensor_stands_in_a_table_twice(fixed: bool) -> None:
    first, second = torch.zeros(16), torch.zeros(16)
    table = addresses([first, second if fixed else first])
    update_each[(2,)](table, torch.rand(16), D=16)


@triton.jit
def double_each(table_ptr, o_ptr, D: tl.constexpr):
    x_ptr = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    d = tl.arange(0, D)
    tl.store(o_ptr + tl.program_id(0) * D + d, 2 * tl.load(x_ptr + d))  # BUG: uninit_read


@buggy("uninit_read", "table_ptr")
def tensor_of_a_table_was_never_written(fixed: bool) -> None:
    tensors = [torch.zeros(16), torch.zeros(16) if fixed else torch.empty(16)]
    double_each[(2,)](addresses(tensors), torch.empty(2, 16), D=16)
