"""Tests of products of block-scaled operands (OCP microscaling), compared with ml-dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray

pytestmark = pytest.mark.usefixtures("schedule")

M, N, K = 32, 16, 64
#: Number of elements that share a scale.
GROUP = 32
TYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
}


@triton.jit
def product(
    a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, c_ptr, out_ptr,
    A: tl.constexpr, B: tl.constexpr, A_SCALED: tl.constexpr, B_SCALED: tl.constexpr,
    ADDS: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    A_K: tl.constexpr, B_K: tl.constexpr, GROUPS: tl.constexpr,
):  # fmt: skip
    m, n, g = tl.arange(0, M), tl.arange(0, N), tl.arange(0, GROUPS)
    a = tl.load(a_ptr + m[:, None] * A_K + tl.arange(0, A_K)[None, :])
    b = tl.load(b_ptr + tl.arange(0, B_K)[:, None] * N + n[None, :])
    a_scale = tl.load(a_scale_ptr + m[:, None] * GROUPS + g[None, :]) if A_SCALED else None
    b_scale = tl.load(b_scale_ptr + n[:, None] * GROUPS + g[None, :]) if B_SCALED else None
    c = tl.load(c_ptr + m[:, None] * N + n[None, :]) if ADDS else None
    d = tl.dot_scaled(a, a_scale, A, b, b_scale, B, acc=c)
    tl.store(out_ptr + m[:, None] * N + n[None, :], d)


def operand(
    random: np.random.Generator, format: str, rows: int
) -> tuple[torch.Tensor, NDArray[np.float64]]:
    """Return `rows` rows of K elements: the tensor for the kernel, and the values."""
    values = random.normal(size=(rows, K)).astype(TYPES[format])
    if format == "e2m1":
        bits = values.view(np.uint8) & 15
        packed = bits[:, 0::2] | bits[:, 1::2] << 4
        return torch.from_numpy(packed.copy()), values.astype(np.float64)
    if format in ("bf16", "fp16"):
        kind = torch.bfloat16 if format == "bf16" else torch.float16
        return torch.from_numpy(values.view(np.int16)).view(kind), values.astype(np.float64)
    return torch.from_numpy(values.view(np.uint8).copy()), values.astype(np.float64)


def scales(random: np.random.Generator, rows: int) -> tuple[torch.Tensor, NDArray[np.float64]]:
    """Return the exponents of the scales of each group of a row, and the factor of each element."""
    bits = random.integers(121, 134, (rows, K // GROUP)).astype(np.uint8)
    return torch.from_numpy(bits), np.repeat(2.0 ** (bits.astype(np.float64) - 127), GROUP, 1)


@pytest.mark.parametrize("adds", [False, True], ids=["alone", "added"])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("e4m3", "e4m3"),
        ("e5m2", "e4m3"),
        ("e2m1", "e2m1"),
        ("e2m1", "e5m2"),
        ("bf16", "e4m3"),
        ("e2m1", "bf16"),
        ("fp16", "e5m2"),
        ("e4m3", "fp16"),
    ],
)
def test_scaled_products(left: str, right: str, adds: bool) -> None:
    random = np.random.default_rng(7)
    a, a_values = operand(random, left, M)
    b, b_values = operand(random, right, N)
    a_scale, a_factors = scales(random, M)
    b_scale, b_factors = scales(random, N)
    scaled = [format not in ("bf16", "fp16") for format in (left, right)]
    c = random.normal(size=(M, N)).astype(np.float32)
    out = torch.full((M, N), float("nan"))
    columns = b.T.contiguous()
    product[(1,)](
        a, a_scale, columns, b_scale, torch.from_numpy(c), out, left, right, *scaled, adds,
        M, N, a.shape[1], columns.shape[0], K // GROUP,
    )  # fmt: skip
    x = a_values * a_factors if scaled[0] else a_values
    y = b_values * b_factors if scaled[1] else b_values
    exact = x @ y.T + (c if adds else 0)
    # Error bound of a sum of K + 1 terms in f32.
    bound = (np.abs(x) @ np.abs(y).T + np.abs(c)) * (K + 1) * 2.0**-24
    assert (np.abs(out.numpy() - exact) <= bound).all()


def test_a_scale_that_is_nan_makes_its_row_nan() -> None:
    random = np.random.default_rng(3)
    a, _ = operand(random, "e4m3", M)
    b, _ = operand(random, "e4m3", N)
    a_scale, _ = scales(random, M)
    b_scale, _ = scales(random, N)
    a_scale[5, 1] = 0xFF
    out = torch.zeros(M, N)
    product[(1,)](
        a, a_scale, b.T.contiguous(), b_scale, torch.zeros(M, N), out, "e4m3", "e4m3",
        True, True, False, M, N, K, K, K // GROUP,
    )  # fmt: skip
    assert out[5].isnan().all()
    assert not out[torch.arange(M) != 5].isnan().any()
