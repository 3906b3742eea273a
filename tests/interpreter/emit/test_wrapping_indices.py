"""Tests of indices that wrap in a narrow type, which look contiguous although they are not.

Each kernel loads with an index of 8 or 16 bits from the middle of a table, so that every wrapped
index is a valid element. NumPy computes the expected elements.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.interpreter import interpret

LANES = 64
MIDDLE = 1 << 17
TABLE = torch.arange(2 * MIDDLE, dtype=torch.int32)


@triton.jit(do_not_specialize=["base", "n"])
def index_kernel(
    x_ptr, out_ptr, base, n, FORM: tl.constexpr, DTYPE: tl.constexpr, LANES: tl.constexpr
):
    lanes = tl.arange(0, LANES)
    narrow = lanes.to(DTYPE)
    start = base.to(DTYPE)
    if FORM == 0:
        index = start + narrow
    elif FORM == 1:
        index = narrow - start
    elif FORM == 2:
        index = start - narrow
    elif FORM == 3:
        index = (start + narrow) % n.to(DTYPE)
    elif FORM == 4:
        index = narrow * 3 + start
    else:
        index = (start + 1) * 2 + narrow
    tl.store(out_ptr + lanes, tl.load(x_ptr + index))


def expected(form: int, dtype: np.dtype, base: int, n: int) -> np.ndarray:
    lanes = np.arange(LANES).astype(dtype)
    start = np.array(base).astype(dtype)
    with np.errstate(over="ignore"):
        match form:
            case 0:
                index = start + lanes
            case 1:
                index = lanes - start
            case 2:
                index = start - lanes
            case 3:
                index = np.fmod(start + lanes, np.array(n).astype(dtype))
            case 4:
                index = lanes * dtype.type(3) + start
            case _:
                index = (start + dtype.type(1)) * dtype.type(2) + lanes
    return index.astype(np.int64) + MIDDLE


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("form", range(6))
@settings(max_examples=25, deadline=None)
@given(base=st.integers(-40000, 70000), n=st.integers(1, 100))
def test_loads_follow_the_wrapped_index(name: str, form: int, base: int, n: int) -> None:
    out = torch.empty(LANES, dtype=torch.int32)
    for schedule in ("fused", "materialised"):
        with interpret(schedule=schedule):
            index_kernel[(1,)](
                TABLE[MIDDLE:], out, base, n, FORM=form, DTYPE=getattr(tl, name), LANES=LANES
            )
        np.testing.assert_array_equal(out.numpy(), expected(form, np.dtype(name), base, n))


@triton.jit(do_not_specialize=["base"])
def wide_index_kernel(x_ptr, out_ptr, base, LANES: tl.constexpr):
    lanes = tl.arange(0, LANES)
    # A 32-bit addition wraps from 2**31 - 1 to -2**31.
    tl.store(out_ptr + lanes, tl.load(x_ptr + (base + lanes)))


@pytest.mark.parametrize("base", [2**31 - 8, 2**31 - 64, -(2**31), 5])
def test_a_32_bit_index_wraps_at_the_access(base: int) -> None:
    # This only reserves address space: pages get memory when they are written.
    table = torch.empty(2**32, dtype=torch.uint8)
    middle = table[2**31 :]
    index = (np.int64(base) + np.arange(LANES)).astype(np.int32).astype(np.int64)
    values = torch.arange(1, LANES + 1, dtype=torch.uint8)
    table[torch.from_numpy(index + 2**31)] = values
    out = torch.empty(LANES, dtype=torch.uint8)
    wide_index_kernel[(1,)](middle, out, base, LANES=LANES)
    torch.testing.assert_close(out, values)
