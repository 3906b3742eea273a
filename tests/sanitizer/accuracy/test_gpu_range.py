"""Ranges of what a GPU may compute contain results of other orders, sums and approximations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.core.errors import UsageError
from ttools.core.reports.accuracy import GpuRange, OutputAccuracy, range_lines, united_ranges
from ttools.interpreter.abi.module import DotMode
from ttools.sanitizer import sanitize

WHOLE = 2.0**-23


def range_of(kernel: Any, arguments: Sequence[Any], gpu: str = "h100", **meta: Any) -> GpuRange:
    with sanitize(checks="accuracy", accuracy_range=gpu) as report:
        kernel[(1,)](*arguments, **meta)
    (output,) = report.accuracy
    assert output.gpu_range is not None
    return output.gpu_range


@triton.jit
def total(x_ptr, o_ptr, N: tl.constexpr):
    tl.store(o_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, N)), 0))


def test_a_sum_in_another_order_is_in_the_range() -> None:
    x, out = torch.randn(512), torch.zeros(1)
    own = range_of(total, (x, out), N=512)
    assert [rule for rule, _ in own.shares] == ["order of sums"]
    assert own.low < float(out) < own.high
    generator = np.random.default_rng(1)
    for _ in range(20):
        values = generator.permutation(x.numpy())
        while len(values) > 1:  # pairs of neighbours, as threads of a warp combine them
            values = values[::2] + values[1::2]
        assert own.low <= float(values[0]) <= own.high


@triton.jit
def exponentials(x_ptr, o_ptr, N: tl.constexpr):
    tl.store(o_ptr, tl.sum(tl.exp(tl.load(x_ptr + tl.arange(0, N))), 0))


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000))
def test_the_width_estimates_the_sum_of_the_bounds(seed: int) -> None:
    x = torch.randn(64, generator=torch.Generator().manual_seed(seed))
    own = range_of(exponentials, (x, torch.zeros(1)), N=64)
    with mpmath.workdps(30):
        exact = [mpmath.exp(mpmath.mpf(value)) for value in x.tolist()]
        functions = sum(
            (2 + 1.173 * abs(value)) * WHOLE * e for value, e in zip(x.tolist(), exact, strict=True)
        )
        order = (64 / 32 - 1 + 5) * WHOLE / 2 * sum(exact)
        bound = float(functions + order + WHOLE / 2 * sum(exact))
    # The engine's own errors are added, and the estimate has a standard deviation of 0.56 in its
    # logarithm.
    assert 0.15 < (own.high - own.low) / 2 / bound < 8


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, j, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    a = tl.load(a_ptr + i * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + j)
    tl.store(c_ptr + i * N + j, tl.dot(a, b))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_sums_of_tensor_cores_are_in_the_range(dtype: torch.dtype) -> None:
    a, b = torch.rand(16, 64).to(dtype), torch.rand(64, 16).to(dtype)
    out = torch.zeros(16, 16)
    own = range_of(product, (a, b, out), M=16, N=16, K=64)
    assert [rule for rule, _ in own.shares] == ["sums of matrix products"]
    modes: tuple[DotMode, ...] = ("as-written", "tensor-core")
    for mode in modes:
        with sanitize(checks="memcheck", dot=mode):
            product[(1,)](a, b, out, M=16, N=16, K=64)
        i, j = (int(n) for n in own.index.strip("[]").split(","))
        assert own.low <= float(out[i, j]) <= own.high


def test_eight_bit_products_are_less_accurate_on_some_gpus() -> None:
    a, b = (torch.rand(16, 64).to(torch.float8_e5m2) for _ in range(2))
    arguments = a, b.reshape(64, 16), torch.zeros(16, 16)
    widths = {gpu: range_of(product, arguments, gpu, M=16, N=16, K=64).ulps for gpu in GPUS}
    assert widths["sm_90"] > 20 * widths["b200"]


GPUS = ("sm_90", "b200")


@triton.jit
def fused(x_ptr, y_ptr, z_ptr, o_ptr):
    tl.store(o_ptr, tl.load(x_ptr) * tl.load(y_ptr) - tl.load(z_ptr))


def test_a_product_may_be_fused_with_a_sum() -> None:
    x, y = torch.tensor([1.1]), torch.tensor([1.3])
    z, out = x * y, torch.zeros(1)
    own = range_of(fused, (x, y, z, out))
    assert [rule for rule, _ in own.shares] == ["fused products"]
    assert own.low <= 0.0 <= own.high  # the rounded product minus itself
    assert own.low <= float(x.double() * y.double() - z.double()) <= own.high


@triton.jit
def positive(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.maximum(tl.load(x_ptr + i), 0.0))


@triton.jit
def into_halves(x_ptr, h_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(h_ptr + i, tl.exp(tl.load(x_ptr + i)))


def test_results_with_the_same_bits_and_ranges_of_several_launches() -> None:
    x, out = torch.randn(16).half(), torch.zeros(16).half()
    own = range_of(positive, (x, out), N=16)
    assert (own.equal, own.elements, own.text) == (16, 16, "the same bits")
    with sanitize(checks="accuracy", accuracy_range="sm_80") as report:
        into_halves[(1,)](x.float(), out, N=16)
        positive[(1,)](out, y := torch.zeros(16), N=16)
    text = report.to("text")
    assert y.any()
    assert "results that sm_80 may compute (estimated to first order):" in text
    ranges = {output.argument: output.gpu_range for output in report.accuracy}
    later = ranges["o_ptr"]
    assert later is not None
    assert "approximate functions" in dict(later.shares)  # carried from the first launch
    assert "may compute up to" in report.to("html")
    assert "results of a GPU (estimated)" in report.to("markdown")
    assert '"gpu_range": {' in report.to("json")


def test_ranges_are_merged_and_described() -> None:
    first = GpuRange(
        gpu="h100", ulps=0.0, index="", low=1.0, high=1.0, elements=4, equal=4, shares=()
    )
    assert first.text == "the same bits"
    second = GpuRange(
        gpu="h100",
        ulps=3.0,
        index="[1]",
        low=1.0,
        high=2.0,
        elements=4,
        equal=1,
        shares=(("order of sums", 1.0),),
    )
    both = united_ranges(first, second)
    assert both is not None
    assert (both.ulps, both.elements, both.equal) == (3.0, 8, 5)
    assert united_ranges(None, second) is second
    assert both.text == (
        "up to 3 ulp from the results here; widest: 1 to 2 at [1] (100% order of sums)"
    )
    outputs: list[OutputAccuracy] = []
    assert range_lines(outputs) == []


@pytest.mark.parametrize(
    ("gpu", "checks", "message"),
    [
        ("h1000", "accuracy", "there is no GPU `h1000`"),
        ("gfx942", "accuracy", "ranges of results are known for NVIDIA GPUs only"),
        ("h100", "memcheck", "ranges of results are only estimated by the check `accuracy`"),
    ],
)
def test_ranges_that_cannot_be_estimated(gpu: str, checks: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sanitize(checks=checks, accuracy_range=gpu)
