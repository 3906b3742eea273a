"""Memory outside torch is accessed if a launch gets its address; a note reports that."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize

SIZE = 16


@triton.jit
def read_through(table, out_ptr, SHIFT: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    p = tl.load(table).to(tl.pointer_type(tl.float32)) + SHIFT
    tl.store(out_ptr + i, tl.load(p + i))


@triton.jit
def read_at(address: tl.uint64, out_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out_ptr + i, tl.load(address.to(tl.pointer_type(tl.float32)) + i))


def _numpy() -> tuple[Any, int]:
    array = np.ones(SIZE, np.float32)
    return array, array.ctypes.data


def _ctypes() -> tuple[Any, int]:
    array = (ctypes.c_float * SIZE)(*[1.0] * SIZE)
    return array, ctypes.addressof(array)


def _map() -> tuple[Any, int]:
    pages = mmap.mmap(-1, mmap.PAGESIZE)
    array = np.frombuffer(pages, np.float32)
    array[:] = 1
    return array, array.ctypes.data


@pytest.mark.parametrize("make", [_numpy, _ctypes, _map])
def test_foreign_memory_is_accessed(make: Callable[[], tuple[Any, int]]) -> None:
    owner, address = make()
    out, number = torch.zeros(SIZE), torch.zeros(SIZE)
    with sanitize() as report:
        read_through[(1,)](torch.tensor([address]), out, SHIFT=0, B=SIZE)
        read_at[(1,)](address, number, B=SIZE)
    assert out.tolist() == number.tolist() == [1.0] * SIZE
    assert report.findings == []
    assert [text.split("`")[1] for text in report.warnings] == ["read_through", "read_at"]
    del owner


@pytest.mark.parametrize("shift", [-SIZE, SIZE])
def test_past_a_known_tensor_is_still_an_error(shift: int) -> None:
    x = torch.ones(SIZE)
    with sanitize() as report:
        table = torch.tensor([x.data_ptr()])
        read_through[(1,)](table, torch.zeros(SIZE), SHIFT=shift, B=SIZE)
    assert [finding.kind for finding in report.findings] == ["oob_load"]
    assert report.warnings == []


def test_freed_memory_is_still_an_error() -> None:
    with sanitize() as report:
        x = torch.ones(1 << 12)
        table = torch.tensor([x.data_ptr()])
        del x
        read_through[(1,)](table, torch.zeros(SIZE), SHIFT=0, B=SIZE)
    assert [finding.kind for finding in report.findings] == ["use_after_free"]


@pytest.mark.parametrize("address", [8, 1 << 20, (1 << 46) + 64])
def test_addresses_of_no_memory_are_errors(address: int) -> None:
    with sanitize() as report:
        read_through[(1,)](torch.tensor([address]), torch.zeros(SIZE), SHIFT=0, B=SIZE)
    assert [finding.kind for finding in report.findings] == ["oob_load"]
    assert report.warnings == []


def test_foreign_memory_ends_at_the_next_tensor() -> None:
    memory = np.ones(4 * SIZE, np.float32)
    tensor = torch.from_numpy(memory[2 * SIZE :])
    with sanitize() as report:
        tables = torch.tensor([memory.ctypes.data]), torch.tensor([tensor.data_ptr()])
        for shift in (
            0,
            2 * SIZE,
        ):  # the second address is inside the tensor, which is other memory
            read_through[(1,)](tables[0], torch.zeros(SIZE), SHIFT=shift, B=SIZE)
        read_through[(1,)](tables[1], torch.zeros(SIZE), SHIFT=2 * SIZE, B=SIZE)
    assert [finding.kind for finding in report.findings] == ["oob_load"]
