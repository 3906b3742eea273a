"""Tests of the sources from which kernels get addresses: arguments, memory or integers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.interpreter.analysis.address_sources import AddressSources, address_sources
from ttools.ir.parser import parse_module


@triton.jit
def plain_kernel(x_ptr, table_ptr, n):
    tl.store(x_ptr + tl.load(table_ptr), n)


@triton.jit
def table_kernel(x_ptr, table_ptr, n):
    target = tl.load(table_ptr + n).to(tl.pointer_type(tl.float32))
    tl.store(target, tl.load(x_ptr))


@triton.jit
def computed_kernel(x_ptr, table_ptr, n):
    target = (tl.load(table_ptr) + 4 * n).to(tl.pointer_type(tl.float32))
    tl.store(target, tl.load(x_ptr))


@triton.jit
def scalar_kernel(x_ptr, table_ptr, n):
    tl.store(n.to(tl.int64).to(tl.pointer_type(tl.float32)), tl.load(x_ptr))


@triton.jit
def loop_kernel(x_ptr, table_ptr, n):
    address = tl.load(table_ptr)
    for i in range(n):
        tl.store(address.to(tl.pointer_type(tl.float32)), tl.load(x_ptr))
        address = tl.load(table_ptr + i)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (plain_kernel, AddressSources()),
        (table_kernel, AddressSources(tables={1})),
        (computed_kernel, AddressSources(mixed={1}, scalars={2})),
        (scalar_kernel, AddressSources(scalars={2})),
        (loop_kernel, AddressSources(tables={1})),
    ],
)
def test_sources(kernel: Any, expected: AddressSources) -> None:
    compiled = kernel.warmup(torch.float32, torch.int64, 17, grid=(1,))
    assert address_sources(parse_module(compiled.asm["ttir"])) == expected
