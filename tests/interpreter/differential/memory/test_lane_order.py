"""Tests of accesses with strided or reversed lanes, and of indices that are divided.

Lanes that are near each other become a few vector accesses and shuffles, and a quotient of indices
is computed once per chunk. Whether that is possible depends on the stride, the mask and the
alignment.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.interpreter import interpret

BLOCK = 64
UNTOUCHED = -77


@triton.jit
def copy_strided(
    x_ptr, out_ptr, first, low, high,
    LOAD: tl.constexpr, STORE: tl.constexpr, MASKED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    lanes = tl.arange(0, BLOCK)
    if MASKED:
        inside = (lanes >= low) & (lanes < high)
        x = tl.load(x_ptr + first + lanes * LOAD, mask=inside, other=5)
        tl.store(out_ptr + first + lanes * STORE, x, mask=inside)
    else:
        tl.store(out_ptr + first + lanes * STORE, tl.load(x_ptr + first + lanes * LOAD))


#: Strides of the loads and stores of `copies_strided`.
STRIDES = [(1, -1), (-1, 2), (2, -3), (3, 4), (4, 1), (-5, -2)]


@triton.jit
def copies_strided(
    x_ptr, out_ptr, first, low, high, size, MASKED: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    copy_strided(x_ptr, out_ptr, first, low, high, 1, -1, MASKED, BLOCK)
    copy_strided(x_ptr, out_ptr + size, first, low, high, -1, 2, MASKED, BLOCK)
    copy_strided(x_ptr, out_ptr + 2 * size, first, low, high, 2, -3, MASKED, BLOCK)
    copy_strided(x_ptr, out_ptr + 3 * size, first, low, high, 3, 4, MASKED, BLOCK)
    copy_strided(x_ptr, out_ptr + 4 * size, first, low, high, 4, 1, MASKED, BLOCK)
    copy_strided(x_ptr, out_ptr + 5 * size, first, low, high, -5, -2, MASKED, BLOCK)


@pytest.mark.parametrize("dtype", [torch.int8, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("masked", [False, True])
def test_strides(dtype: torch.dtype, masked: bool, schedule: str) -> None:
    x = torch.arange(640).remainder(120).to(dtype)
    first = 320
    for low, high in ((0, BLOCK), (3, 50), (7, 8), (9, 9)):
        outs = torch.full((len(STRIDES), 640), UNTOUCHED, dtype=dtype)
        untouched = outs[0].clone()
        copies_strided[1,](x, outs, first, low, high, 640, masked, BLOCK)
        for (load, store), out in zip(STRIDES, outs, strict=True):
            expected = untouched.clone()
            for lane in range(low, high) if masked else range(BLOCK):
                expected[first + lane * store] = x[first + lane * load]
            assert torch.equal(out, expected), (load, store)


@triton.jit
def repeat(x_ptr, out_ptr, n, WIDE: tl.constexpr):
    i, j = tl.arange(0, 8)[:, None], tl.arange(0, WIDE)[None, :]
    x = tl.load(x_ptr + i + 0 * j)
    some = tl.load(x_ptr + 7 - i + 0 * j, mask=i * WIDE + j < n, other=-1)
    tl.store(out_ptr + i * WIDE + j, x * 100 + some)


@pytest.mark.parametrize("wide", [2, 4])
def test_lanes_that_share_elements(wide: int, schedule: str) -> None:
    x = torch.arange(8, dtype=torch.int32)
    out = torch.empty(8, wide, dtype=torch.int32)
    repeat[1,](x, out, 5 * wide - 1, wide)
    some = x.flip(0)[:, None].repeat(1, wide).flatten()
    some[5 * wide - 1 :] = -1
    assert torch.equal(out.flatten(), x[:, None].repeat(1, wide).flatten() * 100 + some)


@pytest.mark.parametrize("stride", [-3, -2, -1, 2, 3, 4])
@pytest.mark.parametrize("masked", [False, True])
def test_nothing_beyond_the_lanes_is_accessed(stride: int, masked: bool, native: None) -> None:
    # The pages on both sides of the elements cannot be accessed.
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * page)
    x = torch.frombuffer(memory, dtype=torch.float32)
    inside = x[page // 4 : 2 * page // 4]
    inside.copy_(torch.arange(page // 4))
    libc = ctypes.CDLL(None, use_errno=True)
    outer = [ctypes.c_void_p(x.data_ptr() + n * page) for n in (0, 2)]
    for address in outer:
        assert libc.mprotect(address, page, 0) == 0
    try:
        span = abs(stride) * (BLOCK - 1) + 1
        for start in (0, page // 4 - span):
            first = start if stride > 0 else start + span - 1
            out = torch.empty(BLOCK)
            copy_strided[1,](inside[first:], out, 0, 0, BLOCK, stride, 1, masked, BLOCK)
            assert torch.equal(out, first + stride * torch.arange(BLOCK, dtype=torch.float32))
            copy_strided[1,](out, inside[first:], 0, 0, BLOCK, 1, stride, masked, BLOCK)
    finally:
        for address in outer:
            assert libc.mprotect(address, page, mmap.PROT_READ | mmap.PROT_WRITE) == 0


@triton.jit
def divided(x_ptr, out_ptr, first, n, d, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    index = first + tl.program_id(0) * BLOCK + lanes
    quotient, remainder = index // d, index % d
    inside = (index < n) & (index >= 0)
    by_quotient = tl.load(x_ptr + quotient, mask=inside & (quotient < 4096), other=-1)
    by_remainder = tl.load(x_ptr + remainder, mask=inside & (remainder < 4096), other=-2)
    by_both = tl.load(
        x_ptr + quotient % 7 * 3 + remainder, mask=inside & (remainder < 4000), other=-3
    )
    out = out_ptr + (tl.program_id(0) * BLOCK + lanes) * 3
    tl.store(out, by_quotient)
    tl.store(out + 1, by_remainder)
    tl.store(out + 2, by_both)


@settings(deadline=None, max_examples=60)
@given(
    first=st.one_of(
        st.integers(0, 5000), st.integers(-100, 0), st.integers(2**31 - 600, 2**31 - 257),
        st.sampled_from([0, 16, 64, 2**31 - 512]),
    ),
    d=st.one_of(
        st.integers(1, 70), st.integers(1, 2**31 - 1), st.integers(2**31 - 20, 2**31 - 1),
        st.sampled_from([1, 15, 16, 17, 64, 128]),
    ),
    missing=st.integers(0, 300),
)  # fmt: skip
def test_divided_indices(first: int, d: int, missing: int) -> None:
    x = torch.arange(4096, dtype=torch.int32)
    out = torch.empty(256, 3, dtype=torch.int32)
    n = first + 256 - missing
    with interpret():
        divided[4,](x, out, first, n, d, BLOCK=64)
    index = first + torch.arange(256)
    quotient = torch.div(index, d, rounding_mode="trunc")
    remainder = index - quotient * d
    inside = (index < n) & (index >= 0)
    for column, index_, mask, other in (
        (0, quotient, inside & (quotient < 4096), -1),
        (1, remainder, inside & (remainder < 4096), -2),
        (2, quotient.remainder(7) * 3 + remainder, inside & (remainder < 4000), -3),
    ):
        expected = torch.where(mask, index_, torch.tensor(other)).to(torch.int32)
        assert torch.equal(out[:, column], expected)


@triton.jit
def left_columns(x_ptr, out_ptr, n):
    rows, columns = tl.arange(0, 16)[:, None], tl.arange(0, 8)[None, :]
    x = tl.load(x_ptr + rows + columns, mask=(rows < n) & (columns < 4), other=1)
    x = tl.gather(x, tl.broadcast_to((columns * 3 + 1) & 7, (16, 8)), 1)
    tl.store(out_ptr + rows + (7 - columns) * 17, x, mask=(rows < n) | (columns >= 4))


@pytest.mark.parametrize("cpu", ["", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_wide_lanes_are_masked_in_one_register_of_two(
    dtype: torch.dtype, cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # LLVM aborts on a masked load of two registers if one of the masks is a constant.
    monkeypatch.setenv("TTOOLS_CPU", cpu)
    x, out = torch.arange(23).to(dtype), torch.full((8, 17), -1).to(dtype)
    with interpret():
        left_columns[1,](x, out, 9)
    expected = out.clone().fill_(-1)
    for i, j in itertools.product(range(16), range(8)):
        k = (j * 3 + 1) & 7
        if i < 9 or j >= 4:
            expected[7 - j, i] = i + k if i < 9 and k < 4 else 1
    assert torch.equal(out, expected)


@triton.jit
def constant_bounds(x_ptr, out_ptr, n, STRIDE: tl.constexpr):
    rows, columns = tl.arange(0, 4)[:, None], tl.arange(0, 16)[None, :]
    for bound in tl.static_range(17):
        inside = (rows < n) & (columns < bound)
        x = tl.load(x_ptr + rows + columns * STRIDE, mask=inside, other=1)
        out = out_ptr + bound * 256 + rows * 64 + columns * STRIDE
        tl.store(out, x, mask=(rows + columns) % 5 != 1)
        tl.store(out + 64 * 64 * 16, x + 1, mask=inside | (columns == 15))


@pytest.mark.parametrize("cpu", ["", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.float32, torch.int16])
def test_lanes_with_constant_masks(
    dtype: torch.dtype, stride: int, cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTOOLS_CPU", cpu)
    x = torch.arange(2, 66).to(dtype)
    size = 64 * 64 * 16
    out = torch.full((2 * size,), -1).to(dtype)
    with interpret():
        constant_bounds[1,](x, out, 3, stride)
    expected = torch.full_like(out, -1)
    for bound, i, j in itertools.product(range(17), range(4), range(16)):
        inside = i < 3 and j < bound
        value = x[i + j * stride] if inside else 1
        position = bound * 256 + i * 64 + j * stride
        if (i + j) % 5 != 1:
            expected[position] = value
        if inside or j == 15:
            expected[position + size] = value + 1
    assert torch.equal(out, expected)
