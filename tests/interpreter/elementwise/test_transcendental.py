"""Tests of the accuracy of transcendental functions, in units in the last place (ulps).

The references are functions of f64 in NumPy and Python, whose errors are far below one ulp of f32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from float_formats import all_values, assert_same_floats, flushed, nearest
from vector_jit import TYPES, apply

Array = np.ndarray[Any, Any]
NAN, INF = math.nan, math.inf

erf: Callable[[Array], Array] = np.vectorize(math.erf, otypes=[np.float64])
erfc: Callable[[Array], Array] = np.vectorize(math.erfc, otypes=[np.float64])


#: Function -> (reference, measured bound in ulp of f32).
def flushing_erf(x: Array) -> Array:
    return flushed(erf(flushed(x)))


FUNCTIONS: dict[str, tuple[Callable[[Array], Array], float]] = {
    "exp": (np.exp, 1.15),
    "exp2": (lambda x: flushed(np.exp2(x)), 0.95),
    "expm1": (np.expm1, 1.9),
    "log": (np.log, 1.0),
    "log2": (np.log2, 1.0),
    "log10": (np.log10, 1.0),
    "log1p": (np.log1p, 1.45),
    "sin": (lambda x: np.sin(flushed(x)), 0.501),
    "cos": (np.cos, 0.501),
    "tan": (np.tan, 0.501),
    "tanh": (np.tanh, 1.35),
    "erf": (flushing_erf, 1.2),
    "atan": (np.arctan, 0.501),
    "sinh": (np.sinh, 0.501),
    "erfc": (erfc, 0.501),
    "cbrt": (np.cbrt, 0.501),
}


def sample(seed: int = 0) -> Array:
    """Return samples of every magnitude of f32, which are dense where functions vary most."""
    rng = np.random.default_rng(seed)
    every = np.arange(0, 1 << 32, 40013, dtype=np.uint64).astype(np.uint32).view(np.float32)
    dense = [rng.uniform(-r, r, 100_000) for r in (0.6, 2, 20, 110)]
    around = 1 + rng.uniform(-0.01, 0.01, 50_000)
    special = [0.0, -0.0, 1, -1, INF, -INF, NAN, 1e-45, -1e-45, 3.4e38, -3.4e38]
    return np.concatenate([every, *dense, around, special]).astype(np.float32)


def ulps(actual: Array, expected: Array) -> Array:
    """Return the errors of finite results in ulps; assert that other results are equal."""
    rounded = expected.astype(np.float32)
    finite = np.isfinite(rounded) & np.isfinite(actual)
    assert_same_floats(actual[~finite], rounded[~finite])
    zero = (expected == 0) & finite
    assert_same_floats(actual[zero], expected[zero])
    unit = np.spacing(np.abs(rounded[finite])).astype(np.float64)
    return np.abs(actual[finite].astype(np.float64) - expected[finite]) / unit


@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_in_f32(name: str) -> None:
    reference, bound = FUNCTIONS[name]
    x = sample()[:: 4 if reference in (flushing_erf, erfc) else 1]
    errors = ulps(apply(f"math.{name}", ["f32"], ["f32"], x), reference(x.astype(np.float64)))
    assert errors.max() <= bound


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("width", [1, 16])
def test_reduction_of_large_arguments(name: str, width: int) -> None:
    mpmath = pytest.importorskip("mpmath")
    x = np.arange(0x4F000000, 0x7F800000, 3 * 99991, dtype=np.uint32).view(np.float32)
    x = np.concatenate([x, -x[::7], np.linspace(0, 100, 50, dtype=np.float32)])
    with mpmath.workprec(300):
        exact = np.array([float(getattr(mpmath, name)(mpmath.mpf(float(v)))) for v in x])
    assert ulps(apply(f"math.{name}", ["f32"], ["f32"], x, width=width), exact).max() <= 0.501


def test_power() -> None:
    rng = np.random.default_rng(0)
    special = [0.0, -0.0, 1, -1, INF, -INF, NAN, 2, 3, -3, 0.5, -0.5, 1e-40, 1e30, -1e30]
    special += [2.0**24 + 2, 2.0**23 + 1, -(2.0**23) - 1]
    pairs = [(v, w) for v in special for w in special]
    x = np.array([v for v, _ in pairs], np.float32)
    y = np.array([w for _, w in pairs], np.float32)
    small, integers = rng.uniform(-5, 5, 50_000), np.rint(rng.uniform(-9, 9, 50_000))
    wide, exponents = np.exp(rng.uniform(-80, 80, 200_000)), rng.uniform(-3, 3, 200_000)
    x = np.concatenate([x, small, wide]).astype(np.float32)
    y = np.concatenate([y, integers, exponents]).astype(np.float32)
    exact = np.power(x.astype(np.float64), y.astype(np.float64))
    assert ulps(apply("math.powf", ["f32"] * 2, ["f32"], x, y), exact).max() <= 0.501


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("name", ["exp", "log", "sin", "tanh", "erf", "log1p"])
def test_every_16_bit_argument(name: str, kind: str) -> None:
    x = all_values(kind)
    actual = apply(f"math.{name}", [kind], [kind], x).astype(np.float64)
    exact = FUNCTIONS[name][0](x.astype(np.float64))
    expected = nearest(exact, kind)
    # With errors of 2 ulps of f32, results can differ only if the exact value is near a midpoint.
    wrong = ~((actual == expected) | (np.isnan(actual) & np.isnan(expected)))
    step = np.abs(nearest(np.abs(expected) * 1.01 + 1e-7, kind) - np.abs(expected))
    assert (np.abs(actual - exact)[wrong] <= 0.51 * step[wrong] + 1e-30).all()
    assert wrong.sum() < 20


@pytest.mark.parametrize(
    "name",
    [
        *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan"),
        *("tanh", "sinh", "cosh", "arctan", "arcsin", "arccos", "arcsinh", "arccosh", "arctanh"),
        "cbrt",
    ],
)
def test_f64(name: str) -> None:
    x = np.random.default_rng(0).uniform(-3, 3, 5000)
    expected = getattr(np, name)(x)
    op = name.replace("arc", "a")
    for width in (1, 8):
        actual = apply(f"math.{op}", ["f64"], ["f64"], x, width=width)
        np.testing.assert_allclose(actual, expected, rtol=2e-15, atol=1e-300)


@pytest.mark.parametrize(("name", "base"), [("exp", mpmath.e), ("exp2", mpmath.mpf(2))])
def test_exponentials_of_f64(name: str, base: Any) -> None:
    low, high = (-745.1, 709.7) if name == "exp" else (-1074.9, 1023.9)
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(low, high, 2000), rng.uniform(-1, 1, 1000) ** 9])
    actual = apply(f"math.{name}", ["f64"], ["f64"], x)
    with mpmath.workprec(120):
        powers = [mpmath.power(base, mpmath.mpf(float(value))) for value in x]
        errors = [abs(mpmath.mpf(float(a)) - p) for a, p in zip(actual, powers, strict=True)]
    assert all(error <= 1.0 * np.spacing(a) for error, a in zip(errors, actual, strict=True))
    special = np.array([INF, -INF, NAN, 1e300, -1e300, 0.0])
    expected = np.array([INF, 0.0, NAN, INF, 0.0, 1.0])
    np.testing.assert_array_equal(apply(f"math.{name}", ["f64"], ["f64"], special), expected)


def test_two_arguments_in_f64() -> None:
    y, x = np.random.default_rng(0).uniform(-3, 3, (2, 5000))
    actual = apply("math.atan2", ["f64"] * 2, ["f64"], y, x)
    np.testing.assert_allclose(actual, np.arctan2(y, x), rtol=1e-15)
    actual = apply("math.powf", ["f64"] * 2, ["f64"], np.abs(y), x)
    np.testing.assert_allclose(actual, np.abs(y) ** x, rtol=1e-15)


def test_integer_powers() -> None:
    x = np.linspace(-3, 3, 32, dtype=np.float32)
    n = np.arange(-16, 16, dtype=np.int32)
    actual = apply("math.fpowi", ["f32", "i32"], ["f32"], x, n)
    np.testing.assert_allclose(actual, x.astype(np.float64) ** n, rtol=1e-7)


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_classification(kind: str) -> None:
    x = np.array([NAN, INF, -INF, 0, 1, -2.5], TYPES[kind])
    denormal = np.array([1], f"u{x.itemsize}").view(TYPES[kind])
    assert apply("math.isnormal", [kind], ["i1"], denormal).tolist() == [0]
    for op, expected in (
        ("isnan", [1, 0, 0, 0, 0, 0]),
        ("isinf", [0, 1, 1, 0, 0, 0]),
        ("isfinite", [0, 0, 0, 1, 1, 1]),
        ("isnormal", [0, 0, 0, 0, 1, 1]),
    ):
        assert apply(f"math.{op}", [kind], ["i1"], x).tolist() == expected


def test_sine_and_cosine_together() -> None:
    x = np.linspace(-3, 3, 64, dtype=np.float32)
    sine, cosine = apply("math.sincos", ["f32"], ["f32", "f32"], x)
    np.testing.assert_array_equal(sine, apply("math.sin", ["f32"], ["f32"], x))
    np.testing.assert_array_equal(cosine, apply("math.cos", ["f32"], ["f32"], x))


def test_powers_of_integers() -> None:
    x = np.array([v for v in (0, 1, -1, 2, -3, 7) for _ in range(8)], np.int32)
    n = np.array([0, 1, 2, 3, 9, 31, -1, -2] * 6, np.int32)

    def oracle(base: int, power: int) -> int:
        if power >= 0:
            return (base**power + 2**31) % 2**32 - 2**31
        return {0: -1, 1: 1, -1: 1 - 2 * (power % 2)}.get(base, 0)

    expected = [oracle(int(b), int(p)) for b, p in zip(x, n, strict=True)]
    assert apply("math.ipowi", ["i32"] * 2, ["i32"], x, n).tolist() == expected
