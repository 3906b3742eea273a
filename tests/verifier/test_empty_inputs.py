"""Torch may compute the results for empty inputs, even if the result is NaN."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ttools.verifier.cases.tensors import is_constant
from ttools.verifier.options import VerifyOptions
from ttools.verifier.serving import verify_here

FILE = """
import torch
import triton
import triton.language as tl

DOMAIN = {"M": (0, 40), "N": (0, 60), "dtype": ["float32"]}


@triton.jit
def mean_kernel(x_ptr, o_ptr, m, n, stride_m, stride_n, R: tl.constexpr, C: tl.constexpr):
    columns = tl.program_id(0) * C + tl.arange(0, C)
    total = tl.zeros((R, C), tl.float32)
    for first in range(0, m, R):
        rows = first + tl.arange(0, R)
        inside = (rows[:, None] < m) & (columns[None, :] < n)
        at = rows[:, None] * stride_m + columns[None, :] * stride_n
        total += tl.load(x_ptr + at, mask=inside, other=0.0)
    tl.store(o_ptr + columns, tl.sum(total, 0) / m, mask=columns < n)


def candidate(x):
    if x.numel() == 0:
        return torch.mean(x, dim=0)
    m, n = x.shape
    out = torch.empty(n)
    mean_kernel[(triton.cdiv(n, 32),)](x, out, m, n, *x.stride(), R=8, C=32)
    return out


def reference(x):
    return x.mean(dim=0)


def inputs(M, N, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(M, N, generator=generator)}
"""


def test_a_wrapper_may_use_torch_for_empty_inputs(tmp_path: Path) -> None:
    file = tmp_path / "means.py"
    file.write_text(FILE)
    subject = {name: f"{file}:{name}" for name in ("candidate", "reference", "inputs")}
    found = verify_here(subject, VerifyOptions(cases=40, all_sizes_seconds=0, replay_seed=1))
    assert found.failures == ()


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (torch.zeros(0), True),
        (torch.ones(1), True),
        (torch.ones(2, 3), True),
        (torch.full((4,), torch.nan), True),
        (torch.tensor([torch.nan, 1.0]), False),
        (torch.tensor([1.0, torch.nan]), False),
        (torch.tensor([0.0, -0.0]), True),
        (torch.arange(3), False),
        (torch.ones(3, dtype=torch.bool), True),
        (torch.full((3,), complex(torch.nan, 1.0)), True),
    ],
)
def test_constant_tensors(tensor: torch.Tensor, expected: bool) -> None:
    assert is_constant(tensor) is expected
