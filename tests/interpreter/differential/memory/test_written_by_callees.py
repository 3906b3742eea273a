"""Tests of called functions that overwrite loaded elements, through pointers of any origin."""

from __future__ import annotations

import kernel_text
import pytest
import torch

_FUNCTIONS = """\
@triton.jit(noinline=True)
def write(p, value):
    tl.store(p, value)

@triton.jit(noinline=True)
def write_at(address, value):
    tl.store(address.to(tl.pointer_type(tl.int32)), value)

@triton.jit(noinline=True)
def hand_on(p, value):
    write(p + 1, value)

@triton.jit(noinline=True)
def write_loaded(table, value):
    tl.store(tl.load(table).to(tl.pointer_type(tl.int32)), value)

@triton.jit(noinline=True)
def hand_on_loaded(table, value):
    write(tl.load(table).to(tl.pointer_type(tl.int32)), value)

@triton.jit(noinline=True)
def hand_on_address(table, value):
    write_at(tl.load(table), value)

@triton.jit(noinline=True)
def pointer_in(table):
    return tl.load(table).to(tl.pointer_type(tl.int32))

@triton.jit(noinline=True)
def hand_on_returned(table, value):
    hand_on(pointer_in(table) - 1, value)

@triton.jit(noinline=True)
def hand_on_one_of_two(table, p, value):
    q = p
    if value > 0:
        q = tl.load(table).to(tl.pointer_type(tl.int32))
    write(q, value)

@triton.jit
def kernel(x_ptr, table_ptr, out_ptr):
    lanes = tl.arange(0, 64)
    x = tl.load(x_ptr + lanes)
    {call}
    tl.store(out_ptr + lanes, x)
    tl.store(out_ptr + 64 + lanes, tl.load(x_ptr + lanes))
"""
#: Calls that write 77 to element 5 of `x`; the table contains the address of `x`.
CALLS = [
    "write(x_ptr + 5, 77)",
    "hand_on(x_ptr + 4, 77)",
    "write_at(tl.load(table_ptr), 77)",
    "write_loaded(table_ptr, 77)",
    "hand_on_loaded(table_ptr, 77)",
    "hand_on_address(table_ptr, 77)",
    "write(pointer_in(table_ptr), 77)",
    "hand_on_returned(table_ptr, 77)",
    "hand_on_one_of_two(table_ptr, out_ptr, 77)",
]


@pytest.mark.parametrize("call", CALLS)
def test_loaded_values_do_not_change(call: str, schedule: str) -> None:
    x, out = torch.arange(64, dtype=torch.int32), torch.zeros(128, dtype=torch.int32)
    table = torch.tensor([x[5:].data_ptr()])
    kernel_text.kernel(_FUNCTIONS.replace("{call}", call))[1,](x, table, out)
    before, after = torch.arange(64), torch.arange(64)
    after[5] = 77
    assert out.tolist() == torch.cat([before, after]).tolist()
