"""Tests that `dot="tensor-core"` computes the same bits as the tensor cores of a Hopper GPU."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)
if torch.cuda.get_device_capability()[0] != 9:
    pytest.skip("tensor cores of other GPUs round sums differently", allow_module_level=True)

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from ttools.interpreter import interpret  # noqa: E402

pytestmark = pytest.mark.gpu


@triton.jit
def product_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    out_ptr,
    TILE: tl.constexpr,
    K: tl.constexpr,
    STEP: tl.constexpr,
    PRECISION: tl.constexpr,
):
    n: tl.constexpr = 64
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    steps = tl.arange(0, STEP)
    total = tl.load(c_ptr + rows[:, None] * n + columns[None, :])
    for start in range(0, K, STEP):
        a = tl.load(a_ptr + rows[:, None] * K + (start + steps)[None, :])
        b = tl.load(b_ptr + (start + steps)[:, None] * n + columns[None, :])
        total = tl.dot(a, b, total, input_precision=PRECISION)
    tl.store(out_ptr + rows[:, None] * n + columns[None, :], total)


def values(kind: str, *shape: int) -> Any:
    """Return random numbers with a distribution of `KINDS`, which differ in how sums round."""
    if kind == "positive":
        return torch.rand(*shape)
    numbers = torch.randn(*shape)
    if kind == "wide":
        return numbers * 2.0 ** torch.randint(-12, 13, shape)
    if kind == "sparse":
        return numbers * (torch.rand(*shape) < 0.2) * 2.0 ** torch.randint(-30, 10, shape)
    if kind == "cancelling":
        numbers[..., 1::2] = -numbers[..., ::2] * (1 + 2.0**-9 * torch.randn(*shape)[..., ::2])
    return numbers


KINDS = ("positive", "normal", "wide", "sparse", "cancelling", "bits")
TYPES = [
    *(("float32", precision) for precision in ("tf32", "tf32x3", "bf16x3", "bf16x6", "ieee")),
    ("float16", "tf32"),
    ("bfloat16", "tf32"),
]


def any_bits(dtype: Any, *shape: int) -> Any:
    """Return random bit patterns, with additional zeros and fewer infinities and NaNs."""
    bits = {2: torch.int16, 4: torch.int32}[dtype.itemsize]
    patterns = torch.randint(torch.iinfo(bits).min, torch.iinfo(bits).max, shape).to(bits)
    patterns = torch.where(torch.rand(*shape) < 0.1, torch.zeros_like(patterns), patterns)
    # An infinity or NaN determines a whole row of the product, so only a few are kept.
    numbers = patterns.view(dtype)
    return torch.where(numbers.isfinite() | (torch.rand(*shape) < 0.02), numbers, 0.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dtype", "precision"), TYPES)
def test_every_bit(dtype: str, precision: str, kind: str) -> None:
    element = getattr(torch, dtype)
    torch.manual_seed(7)
    for tile, (k, step) in itertools.product((16, 64), ((16, 16), (64, 64), (512, 32))):
        if kind == "bits":
            a, b = any_bits(element, 64, k), any_bits(element, k, 64)
            c = any_bits(torch.float32, 64, 64)
        else:
            a, b = values(kind, 64, k).to(element), values(kind, 64, k).t().contiguous().to(element)
            c = values(kind, 64, 64)
        arguments = [tensor.cuda() for tensor in (a, b, c)]
        outputs = [torch.empty(64, 64, device="cuda") for _ in range(2)]
        grid = (64 // tile, 64 // tile)
        product_kernel[grid](*arguments, outputs[0], tile, k, step, precision)
        with interpret(dot="tensor-core"):
            product_kernel[grid](*arguments, outputs[1], tile, k, step, precision)
        torch.testing.assert_close(
            outputs[1], outputs[0], rtol=0, atol=0, equal_nan=True, msg=f"{tile} {k} {step}"
        )
