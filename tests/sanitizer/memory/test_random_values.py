"""A hundred million random values per type: none of them is reported as unwritten memory.

The values are in tensors of several sizes, which kernels, reads by the host and copies use. Each
type has its own seed, which `TTOOLS_RANDOM_VALUES_SEED` changes.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
    torch.bfloat16, torch.float32, torch.float64, torch.float8_e5m2, torch.float8_e4m3fn,
]  # fmt: skip
VALUES, LARGEST, SMALLEST = 10**8, 1 << 23, 1000


@triton.jit
def copied(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


def random_values(random: np.random.Generator, count: int, dtype: torch.dtype) -> torch.Tensor:
    """Return values with random bits."""
    item = torch.empty(0, dtype=dtype).element_size()
    bits = random.integers(0, 256, count * item, np.uint8)
    if dtype is torch.bool:
        bits &= 1
    return torch.from_numpy(bits).view(dtype)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("checks", ["default", "initcheck"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_random_values(dtype: torch.dtype, checks: str) -> None:
    seed = int(os.environ.get("TTOOLS_RANDOM_VALUES_SEED", "0"))
    random = np.random.default_rng([seed, DTYPES.index(dtype), len(checks)])
    remaining, size = VALUES, LARGEST
    with sanitize(checks=checks) as report:
        while remaining > 0:
            values = random_values(random, size, dtype)
            mine = torch.empty_like(values).copy_(values)
            bytes_of_mine = mine.view(torch.uint8)
            by_numpy = torch.empty_like(bytes_of_mine)
            by_numpy.numpy()[:] = bytes_of_mine.numpy()
            out, again = torch.empty_like(values), torch.empty_like(values)
            copied[(triton.cdiv(size, 4096),)](by_numpy.view(dtype), out, size, B=4096)
            copied[(triton.cdiv(size, 4096),)](out.clone(), again, size, B=4096)
            assert torch.equal(again.view(torch.uint8), bytes_of_mine)
            remaining -= size
            size = size // 4 if size > SMALLEST else LARGEST
    assert report.findings == []
    assert report.warnings == []
