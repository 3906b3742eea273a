"""Integer operations on a kernel's data are counted, and those on its addresses are not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.gpus.devices import read_device
from ttools.profiler import profile

# Kernels are only annotated with constexpr; a launch determines the types of other parameters.
# mypy: disable-error-code="no-untyped-def"


@triton.jit
def hash_kernel(x_ptr, out_ptr, n, turns, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    for turn in range(turns):
        x = x * 747796405 + turn
        x ^= x >> 16
    tl.store(out_ptr + offs, x, mask=offs < n)


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, turns, BLOCK: tl.constexpr):
    offs = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)) * 3 % n
    for turn in range(turns):
        at = offs ^ turn
        tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def hoisted_kernel(x_ptr, out_ptr, n, turns, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    for turn in range(turns):
        y = x * 747796405
        tl.store(out_ptr + turn * n + offs, y)


@triton.jit
def index_kernel(x_ptr, out_ptr, n, turns, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, offs + turns, mask=offs < n)


@triton.jit
def branch_kernel(x_ptr, out_ptr, n, turns, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    if tl.program_id(0) == 0:
        x = x * 3
    tl.store(out_ptr + offs, x.to(tl.float32))


def profiled(kernel: Any, dtype: torch.dtype = torch.int32, device: str = "h100") -> Any:
    x, out = torch.ones(4096, dtype=dtype), torch.zeros(4096, dtype=dtype)
    with profile(device=device, line_times=False) as prof:
        kernel[(4,)](x, out, 512, 5, BLOCK=128)
    (sample,) = prof.analyse().samples
    assert sample.counts is not None
    return sample.counts


@pytest.mark.parametrize(
    ("kernel", "integers"),
    [
        (hash_kernel, 4 * 5 * 128 * 4),  # a product, a sum, a shift, a logical operation
        pytest.param(copy_kernel, 0, marks=pytest.mark.slow),
        (hoisted_kernel, 0),
        (index_kernel, 4 * 128),  # the sum; operations shared with the address are free
        (branch_kernel, 128),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_counted_integer_operations(kernel: Any, integers: int) -> None:
    counts = profiled(kernel)
    assert counts.total.operations["integer"] == integers
    assert counts.total.flops == 0, "integer operations are not flops"


@triton.jit
def narrow_kernel(x_ptr, out_ptr, n, turns, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(out_ptr + offs, x * x ^ x)


def test_narrow_integers_are_not_counted() -> None:
    assert profiled(narrow_kernel, torch.int16).total.operations["integer"] == 0
    assert profiled(narrow_kernel).total.operations["integer"] == 4 * 2 * 128


def test_integers_bound_a_launch() -> None:
    x = torch.ones(1 << 14, dtype=torch.int32)
    with profile(gpu="h100", line_times=False) as prof:
        hash_kernel[(128,)](x, x, 1 << 14, 400, BLOCK=128)
    (row,) = prof.analyse().frame.to_dict("records")
    assert row["limited_by"] == "integer"
    operations = 4 * 400 * (1 << 14)
    assert row["bound_s"] == pytest.approx(operations / read_device("h100").peaks["fp32"])
    assert row["projected_s"] > row["bound_s"]
    # The issue limit of an A100's multiprocessor bounds integer operations, at twice the rate of
    # its lanes for floats.
    assert read_device("a100").peak("integer") == 2 * read_device("a100").peaks["fp32"]
