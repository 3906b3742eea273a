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
def from_number(address, o_ptr, n, B: tl.constexpr):
    x = address.to(tl.pointer_type(tl.float32))
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x + i, mask=i < n, other=0.0))  # BUG: oob_load


@buggy("oob_load", "address")
def address_is_passed_as_a_number(fixed: bool) -> None:
    x = torch.rand(50)
    from_number[(1,)](x.data_ptr(), torch.empty(64), 50 if fixed else 60, B=64)
