"""Sums of products: rounded once where a launch allows it, whatever the format and the engine."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import kernel_text
import numpy as np
import pytest
from kernel_text import run_tiles
from number_formats import BF16, F16, F32, F64, Array, Format

from ttools.fuzz.operations.elementwise import minus_subtracts
from ttools.interpreter import interpret

FORMATS = [F16, BF16, F32, F64]
COUNT = 128
#: Ways to run a kernel.
WAYS: list[dict[str, Any]] = [{}, {"schedule": "materialised"}, {"engine": "eager"}]


def operands(format: Format, seed: int = 0) -> dict[str, Array]:
    """Numbers near 1, so that differences of their products show every rounding."""
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(0.9, 1.1, COUNT).astype(format.numpy) for name in "xyz"}


def fraction(value: Any) -> Fraction:
    return Fraction(float(value))


def fused(x: Any, y: Any, z: Any, format: Format) -> Any:
    """`x * y + z` rounded once: exact in f64 for all but f64 and f32, which need care."""
    exact = fraction(x) * fraction(y) + fraction(z)
    value = format.numpy.type(float(exact))
    around = [value, *(np.nextafter(value, format.numpy.type(end)) for end in (-9, 9))]
    return min(around, key=lambda each: abs(fraction(each) - exact))


EXPRESSIONS = {
    "x * y - z": lambda x, y, z, f: fused(x, y, -z, f),
    "z - x * y": lambda x, y, z, f: fused(-x, y, z, f),
    "z + x * y": lambda x, y, z, f: fused(x, y, z, f),
    # Of two products with as many uses the first is fused.
    "x * y - z * z": lambda x, y, z, f: fused(x, y, -(z * z), f),
    # Where the minus is `0 - x * y`, it is what the product is fused with.
    "-(x * y) + z": lambda x, y, z, f: -(x * y) + z if minus_subtracts() else fused(-x, y, z, f),
    "-(x * y) - z": lambda x, y, z, f: -(x * y) - z if minus_subtracts() else fused(-x, y, -z, f),
    "z - -(x * y)": lambda x, y, z, f: z - -(x * y) if minus_subtracts() else fused(x, y, z, f),
    "-(-(x * y)) + z": (lambda x, y, z, f: x * y + z if minus_subtracts() else fused(x, y, z, f)),
    "x * y * z": lambda x, y, z, f: (x * y) * z,
    "(x + y) - z": lambda x, y, z, f: (x + y) - z,
}


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
@pytest.mark.parametrize("text", EXPRESSIONS)
def test_sums_of_products_round_once(text: str, format: Format, way: dict[str, Any]) -> None:
    given = operands(format)
    with interpret(**way):
        (got,) = run_tiles(f"r = {text}", given, {"r": ((COUNT,), format)})
    values = zip(*given.values(), strict=True)
    expected = [float(EXPRESSIONS[text](x, y, z, format)) for x, y, z in values]
    assert got.astype(np.float64).tolist() == expected


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
def test_a_product_that_is_also_used_elsewhere_is_fused(
    format: Format, way: dict[str, Any]
) -> None:
    given = operands(format, 1)
    outputs = dict.fromkeys(("p", "r", "s"), ((COUNT,), format))
    with interpret(**way):
        p, r, s = run_tiles("p = x * y\nr = p - z\ns = z - p", given, outputs)
    x, y, z = given.values()
    np.testing.assert_array_equal(p, x * y)
    expected = [fused(*each, format) for each in zip(x, y, -z, strict=True)]
    assert r.tolist() == expected
    assert s.tolist() == [-e for e in expected]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
def test_a_product_whose_negative_is_also_used_elsewhere_is_fused(
    format: Format, way: dict[str, Any]
) -> None:
    given = operands(format, 1)
    outputs = dict.fromkeys(("p", "q", "r", "s"), ((COUNT,), format))
    with interpret(**way):
        p, q, r, s = run_tiles("p = x * y\nq = -p\nr = q - z\ns = z - q", given, outputs)
    x, y, z = given.values()
    np.testing.assert_array_equal(p, x * y)
    np.testing.assert_array_equal(q, -(x * y))
    if minus_subtracts():
        np.testing.assert_array_equal(r, q - z)
        np.testing.assert_array_equal(s, z - q)
    else:
        assert s.tolist() == [fused(*each, format) for each in zip(x, y, z, strict=True)]
        assert r.tolist() == [-e for e in s.tolist()]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_product_from_outside_a_loop_is_not(way: dict[str, Any]) -> None:
    given = operands(F32, 2)
    body = "p = x * y\nr = z\nfor _ in range(1, 3):\n    r = p - r"
    with interpret(**way):
        (got,) = run_tiles(body, given, {"r": ((COUNT,), F32)})
    x, y, z = given.values()
    np.testing.assert_array_equal(got, x * y - (x * y - z))


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
def test_a_launch_may_forbid_it(format: Format, way: dict[str, Any]) -> None:
    given = operands(format, 3)
    text = "@triton.jit\ndef kernel(x_ptr, y_ptr, z_ptr, r_ptr):\n"
    text += f"    i = tl.arange(0, {COUNT})\n"
    text += "    x, y, z = tl.load(x_ptr + i), tl.load(y_ptr + i), tl.load(z_ptr + i)\n"
    text += "    tl.store(r_ptr + i, x * y - z)\n"
    result = kernel_text.empty((COUNT,), format)
    with interpret(**way):
        kernel_text.kernel(text)[(1,)](
            *map(kernel_text.to_torch, given.values()), result, enable_fp_fusion=False
        )
    x, y, z = given.values()
    np.testing.assert_array_equal(kernel_text.to_numpy(result), x * y - z)
