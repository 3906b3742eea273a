"""Overflows in sums, products and scans of narrow integers, if they reach an address."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from instrumented import line_of
from wrapping import B, bytes_of, candidates, run


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def running(x_ptr, o_ptr, i_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    end = tl.associative_scan(tl.load(i_ptr + i), 0, add)  # here
    x = tl.load(x_ptr + end, mask=i < n)
    tl.store(o_ptr + i, x, mask=i < n)


@triton.jit
def in_all(x_ptr, o_ptr, i_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    volume = tl.reduce(tl.load(i_ptr + i), 0, multiply)  # here
    x = tl.load(x_ptr + volume + i, mask=i < n)
    tl.store(o_ptr + i, x, mask=i < n)


@triton.jit
def in_wide_integers(x_ptr, o_ptr, i_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    end = tl.sum(tl.load(i_ptr + i), 0) + tl.cumsum(tl.load(i_ptr + i), 0)
    tl.store(o_ptr + i, tl.load(x_ptr + end, mask=i < n))


@triton.jit
def summed_hash(x_ptr, o_ptr, i_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    h = tl.reduce(tl.load(i_ptr + i) * 101, 0, add)
    seen = tl.associative_scan(tl.load(i_ptr + i) ^ h, 0, add) % 64
    tl.store(o_ptr + i, tl.load(x_ptr + (h & 63) + seen, mask=i < n))
    tl.store(o_ptr + i, tl.reduce(tl.load(i_ptr + i), 0, add), mask=i < n)


@pytest.mark.parametrize("schedule", ["fused", "materialised"])
def test_a_running_sum_of_bytes_wraps(schedule: str) -> None:
    lengths = bytes_of(100, 100, 55, 1, 100, 100, 55, 1)
    (failure,) = [h for h in run(running, (1,), lengths, schedule=schedule) if h.any]
    np.testing.assert_array_equal(failure.where[0], [0, 0, 0, 1, 1, 1, 1, 1])
    assert "end = tl.associative_scan" in line_of(failure)
    assert "a uint8 running sum of 8 elements wraps around" in failure.message
    assert "int16 would suffice" in failure.message


@pytest.mark.parametrize(("factor", "wraps"), [(1, False), (2, True)])
def test_a_product_of_all_elements_wraps(factor: int, wraps: bool) -> None:
    sides = torch.tensor([factor, 2, 2, 2, 2, 2, 2, 1], dtype=torch.int8)
    arguments = bytes_of() | {"i_ptr": sides}
    failures = [h for h in run(in_all, (1,), arguments) if h.any]
    assert [h.message.split(";")[0] for h in failures] == wraps * [
        "an int8 product of 8 elements wraps around and reaches an address"
    ]


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16])
def test_sums_that_triton_widens_are_not_instrumented(dtype: torch.dtype) -> None:
    arguments = bytes_of() | {"i_ptr": torch.ones(B, dtype=dtype)}
    assert candidates(in_wide_integers, (1,), arguments) == set()


def test_sums_that_reach_no_address_are_not_instrumented() -> None:
    arguments = bytes_of() | {"i_ptr": torch.ones(B, dtype=torch.int8)}
    assert candidates(summed_hash, (1,), arguments) == set()
