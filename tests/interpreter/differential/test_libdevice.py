"""Tests of the functions of `triton.language.extra.libdevice`, compared with NumPy and torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kernel_text
import numpy as np
import pytest
import torch
from joint_kernels import evaluate
from number_formats import F32, F64, I32, Format, assert_same, assert_ulps, to_torch

pytestmark = pytest.mark.usefixtures("schedule")


def _torch(name: str) -> Callable[..., np.ndarray[Any, Any]]:
    """Return a function of torch on doubles, whose errors are a few ulps of f64."""

    def apply(*arguments: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        wide = [torch.from_numpy(a.astype(np.float64)) for a in arguments]
        return getattr(torch, name)(*wide).numpy()

    return apply


#: Functions by name: reference on doubles, domain, and largest error in ulps for f32.
ONE: dict[str, tuple[Callable[..., Any], tuple[float, float], float]] = {
    "abs": (np.abs, (-1e3, 1e3), 0),
    "acos": (np.arccos, (-1, 1), 3),
    "acosh": (np.arccosh, (1, 1e3), 4),
    "asin": (np.arcsin, (-1, 1), 3),
    "asinh": (np.arcsinh, (-1e3, 1e3), 4),
    "atan": (np.arctan, (-50, 50), 3),
    "atanh": (np.arctanh, (-0.999, 0.999), 4),
    "cbrt": (np.cbrt, (-1e3, 1e3), 2),
    "ceil": (np.ceil, (-1e3, 1e3), 0),
    "cos": (np.cos, (-50, 50), 2),
    "cosh": (np.cosh, (-20, 20), 3),
    "erf": (_torch("erf"), (-5, 5), 3),
    "erfc": (_torch("erfc"), (-3, 8), 8),
    "exp": (np.exp, (-80, 80), 2),
    "exp10": (lambda x: 10.0**x, (-30, 30), 3),
    "exp2": (np.exp2, (-100, 100), 2),
    "expm1": (np.expm1, (-10, 10), 2),
    "floor": (np.floor, (-1e3, 1e3), 0),
    "lgamma": (_torch("lgamma"), (3, 50), 6),
    "log": (np.log, (1e-3, 1e5), 2),
    "log10": (np.log10, (1e-3, 1e5), 3),
    "log1p": (np.log1p, (-0.99, 1e3), 2),
    "log2": (np.log2, (1e-3, 1e5), 2),
    "rint": (np.rint, (-1e3, 1e3), 0),
    "round": (lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), (-1e3, 1e3), 0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (1e-3, 1e5), 2),
    "sin": (np.sin, (-50, 50), 2),
    "sinh": (np.sinh, (-20, 20), 4),
    "sqrt": (np.sqrt, (0, 1e5), 0.5),
    "tan": (np.tan, (-1.5, 1.5), 4),
    "tanh": (np.tanh, (-10, 10), 3),
    "trunc": (np.trunc, (-1e3, 1e3), 0),
}
TWO: dict[str, tuple[Callable[..., Any], float]] = {
    "atan2": (np.arctan2, 3),
    "copysign": (np.copysign, 0),
    "fdim": (lambda x, y: np.maximum(x - y, 0), 0.5),
    "fmod": (np.fmod, 0),
    "hypot": (np.hypot, 3),
    "pow": (lambda x, y: np.abs(x) ** y, 4),
}


@pytest.mark.parametrize("format", [F32, F64], ids=str)
def test_one_argument(format: Format) -> None:
    cases = []
    for name, (_, (low, high), _) in ONE.items():
        x = np.random.default_rng(0).uniform(low, high, 1000).astype(format.numpy)
        cases.append((f"libdevice.{name}(x)", format, [x]))
    for name, (_, _, (x,)), got in zip(ONE, cases, evaluate(cases), strict=True):
        function, _, ulps = ONE[name]
        exact = function(x.astype(np.float64))
        # The references have errors of about one ulp of f64, and erf has larger ones in its tails.
        limit = ulps if format is F32 else ulps and 2 * ulps + 4
        assert_ulps(got, exact, limit, floor=1e-40, label=name)


@pytest.mark.parametrize("format", [F32, F64], ids=str)
def test_two_arguments(format: Format) -> None:
    cases = []
    for name in TWO:
        rng = np.random.default_rng(1)
        x, y = (rng.uniform(-9, 9, 1000).astype(format.numpy) for _ in range(2))
        x = np.abs(x) if name == "pow" else x
        cases.append((f"libdevice.{name}(x, y)", format, [x, y]))
    for name, (_, _, (x, y)), got in zip(TWO, cases, evaluate(cases), strict=True):
        function, ulps = TWO[name]
        exact = function(x.astype(np.float64), y.astype(np.float64))
        limit = ulps if format is F32 else ulps and 2 * ulps + 4
        assert_ulps(got, exact, limit, label=name)


@pytest.mark.smoke
def test_predicates_and_integer_functions() -> None:
    x = np.array([1.5, np.nan, np.inf, -np.inf, 0.0, -0.0, -3.25, 1e30], np.float32)
    expression = (
        "(libdevice.isnan(x) != 0).to(tl.int32) + (libdevice.isinf(x) != 0).to(tl.int32) * 2"
        " + (libdevice.signbit(x) != 0).to(tl.int32) * 4 + (libdevice.finitef(x) != 0) * 8"
    )
    out = torch.empty(8, dtype=torch.int32)
    kernel_text.elementwise(expression, 1)[(1,)](out, to_torch(x), 8, BLOCK=8)
    nan_bits = int(out[1].item())
    assert nan_bits & 11 == 1
    assert [*out[:1].tolist(), *out[2:].tolist()] == [8, 2, 6, 8, 12, 12, 8]


def test_bits() -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(-(2**31), 2**31, 200).astype(np.int32)
    functions = {
        "libdevice.popc(x)": lambda v: bin(v & 0xFFFFFFFF).count("1"),
        "libdevice.clz(x)": lambda v: 32 - (v & 0xFFFFFFFF).bit_length(),
        "libdevice.brev(x)": lambda v: int(f"{v & 0xFFFFFFFF:032b}"[::-1], 2),
    }
    results = evaluate([(expression, I32, [x]) for expression in functions])
    for (expression, function), got in zip(functions.items(), results, strict=True):
        expected = np.array([function(int(v)) for v in x], np.uint32).view(I32.numpy)
        assert_same(got, expected, expression)


def test_in_the_middle_of_a_computation() -> None:
    x = np.random.default_rng(3).normal(0, 1, 500).astype(np.float32)
    out = torch.empty(500)
    expression = "libdevice.tanh(x * 2) * libdevice.fma(x, x, x) + libdevice.exp(-libdevice.abs(x))"
    kernel_text.elementwise(expression, 1)[(1,)](out, to_torch(x), 500, BLOCK=512)
    wide = x.astype(np.float64)
    exact = np.tanh(2 * wide) * (wide * wide + wide) + np.exp(-np.abs(wide))
    np.testing.assert_allclose(out, exact, rtol=1e-5, atol=1e-6)
