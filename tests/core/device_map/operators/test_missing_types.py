"""Tests of element types that torch supports for CUDA but not for the CPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.usefixtures("mapped")


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("limits", [(0, 9), (0, 0), (3, 7), (2, 2)])
def test_histograms_of_integers(dtype: torch.dtype, limits: tuple[int, int]) -> None:
    x = torch.tensor([0, 1, 1, 3, 5, 7, 9, 2, 3], dtype=dtype, device="cuda")
    if limits == (2, 2):
        x = x[-2:-1]
    result = torch.histc(x, bins=5, min=limits[0], max=limits[1])
    assert result.dtype is dtype
    least, greatest = limits
    if (
        least == greatest
    ):  # torch then uses the least and greatest element, or a range of 2 around a single value
        least, greatest = int(x.min()), int(x.max())
        if least == greatest:
            least, greatest = least - 1, greatest + 1
    counts, _ = np.histogram(x.cpu().numpy(), 5, (least, greatest))
    assert result.tolist() == counts.tolist()


def test_the_last_bin_contains_the_greatest_number() -> None:
    experts = torch.randint(0, 8, (200,), device="cuda", dtype=torch.int32)
    counts = torch.empty(0, dtype=torch.int32, device="cuda")
    torch.histc(experts, bins=8, min=0, max=7, out=counts)
    assert counts.tolist() == torch.bincount(experts, minlength=8).tolist()


WIDER: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], torch.dtype]] = {
    "pooling": (lambda x: torch.nn.functional.avg_pool3d(x, 2), torch.bfloat16),
    "transform": (torch.fft.rfft, torch.float16),
    "transform back": (lambda x: torch.fft.irfft(torch.fft.rfft(x)), torch.float16),
    "exponential": (torch.exp, torch.complex32),
    "angle": (torch.angle, torch.complex32),
    "in place": (lambda x: x.clone().exp_(), torch.complex32),
    "sum": (lambda x: x.sum(0), torch.complex32),
    "sum in another type": (lambda x: x.sum(0, dtype=torch.complex64), torch.complex32),
    "result": (lambda x: torch.sqrt(x, out=torch.empty_like(x)), torch.complex32),
}


@pytest.mark.parametrize("name", WIDER)
def test_wider_types(name: str) -> None:
    function, dtype = WIDER[name]
    x = torch.linspace(0.25, 4, 64).view(1, 4, 4, 4).to(dtype)
    result = function(x.cuda())
    exact = function(x.to(torch.complex128 if dtype.is_complex else torch.float64))
    assert result.is_cuda
    if name != "sum in another type":
        assert result.itemsize == dtype.itemsize or result.is_complex() != dtype.is_complex
    torch.testing.assert_close(result.cpu().to(exact.dtype), exact, rtol=1e-2, atol=1e-2)


def test_gradients_in_wider_types() -> None:
    x = torch.linspace(-1, 1, 64).view(1, 4, 4, 4)
    half = x.half().cuda().requires_grad_()
    torch.nn.functional.avg_pool3d(half, 2).square().sum().backward()
    x.requires_grad_()
    torch.nn.functional.avg_pool3d(x, 2).square().sum().backward()
    assert half.grad is not None
    assert half.grad.dtype is torch.float16
    torch.testing.assert_close(half.grad.cpu().float(), x.grad, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.complex32, torch.complex64])
def test_sums_without_nan(dtype: torch.dtype) -> None:
    x = torch.tensor([1 + 2j, complex("nan"), 3 - 1j], device="cuda").to(dtype)
    result = x.nansum()
    assert result.dtype is dtype
    assert result.to(torch.complex64).item() == 4 + 1j


def test_booleans() -> None:
    x = torch.eye(3, device="cuda", dtype=torch.bool)
    assert x.abs().dtype is torch.bool
    assert x.trace().item() == 3


def test_types_that_gpus_do_not_support_are_rejected() -> None:
    with pytest.raises(RuntimeError, match="Half"):
        torch.linalg.inv(torch.eye(2, device="cuda", dtype=torch.float16))
    with pytest.raises(RuntimeError, match="not implemented for"):
        torch.histc(torch.ones(3, dtype=torch.bool, device="cuda"))


@pytest.mark.slow
def test_every_type_that_torch_lists_for_gpus() -> None:
    pytest.importorskip("expecttest", reason="torch's lists of operators need expecttest")
    from torch.testing._internal.common_methods_invocations import op_db

    gpu_only = ("flash_attention", "efficient_attention")
    tried = 0
    for op in op_db:
        if any(name in op.name for name in gpu_only):
            continue
        for dtype in set(op.dtypesIfCUDA) - set(op.dtypes):
            samples = op.sample_inputs("cuda", dtype, requires_grad=False)
            for sample in itertools.islice(samples, 3):
                op(sample.input, *sample.args, **sample.kwargs)
                tried += 1
    assert tried > 100
