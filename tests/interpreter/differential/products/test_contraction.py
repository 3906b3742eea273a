"""Tests that a product and a sum are fused, i.e. rounded once, in every format if allowed."""

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
#: Options of `interpret` under which each kernel runs.
OPTIONS: list[dict[str, Any]] = [{}, {"schedule": "materialised"}, {"engine": "eager"}]


def operands(format: Format, seed: int = 0) -> dict[str, Array]:
    """Return numbers near 1, so that differences of their products show every rounding."""
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(0.9, 1.1, COUNT).astype(format.numpy) for name in "xyz"}


def fraction(value: Any) -> Fraction:
    return Fraction(float(value))


def fused(x: Any, y: Any, z: Any, format: Format) -> Any:
    """Return `x * y + z` rounded once: of three neighbouring values, the nearest to the sum."""
    exact = fraction(x) * fraction(y) + fraction(z)
    value = format.numpy.type(float(exact))
    around = [value, *(np.nextafter(value, format.numpy.type(end)) for end in (-9, 9))]
    return min(around, key=lambda candidate: abs(fraction(candidate) - exact))


EXPRESSIONS = {
    "x * y - z": lambda x, y, z, f: fused(x, y, -z, f),
    "z - x * y": lambda x, y, z, f: fused(-x, y, z, f),
    "z + x * y": lambda x, y, z, f: fused(x, y, z, f),
    # If two products have the same number of uses, the first is fused.
    "x * y - z * z": lambda x, y, z, f: fused(x, y, -(z * z), f),
    # If Triton compiles the minus to `0 - x * y`, the product is fused with this subtraction.
    "-(x * y) + z": lambda x, y, z, f: -(x * y) + z if minus_subtracts() else fused(-x, y, z, f),
    "-(x * y) - z": lambda x, y, z, f: -(x * y) - z if minus_subtracts() else fused(-x, y, -z, f),
    "z - -(x * y)": lambda x, y, z, f: z - -(x * y) if minus_subtracts() else fused(x, y, z, f),
    "-(-(x * y)) + z": (lambda x, y, z, f: x * y + z if minus_subtracts() else fused(x, y, z, f)),
    "x * y * z": lambda x, y, z, f: (x * y) * z,
    "(x + y) - z": lambda x, y, z, f: (x + y) - z,
}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
@pytest.mark.parametrize("text", EXPRESSIONS)
def test_sums_of_products_round_once(text: str, format: Format, options: dict[str, Any]) -> None:
    inputs = operands(format)
    with interpret(**options):
        (got,) = run_tiles(f"r = {text}", inputs, {"r": ((COUNT,), format)})
    values = zip(*inputs.values(), strict=True)
    expected = [float(EXPRESSIONS[text](x, y, z, format)) for x, y, z in values]
    assert got.astype(np.float64).tolist() == expected


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
def test_a_product_that_is_also_used_elsewhere_is_fused(
    format: Format, options: dict[str, Any]
) -> None:
    inputs = operands(format, 1)
    outputs = dict.fromkeys(("p", "r", "s"), ((COUNT,), format))
    with interpret(**options):
        p, r, s = run_tiles("p = x * y\nr = p - z\ns = z - p", inputs, outputs)
    x, y, z = inputs.values()
    np.testing.assert_array_equal(p, x * y)
    expected = [fused(*numbers, format) for numbers in zip(x, y, -z, strict=True)]
    assert r.tolist() == expected
    assert s.tolist() == [-e for e in expected]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
def test_a_product_whose_negative_is_also_used_elsewhere_is_fused(
    format: Format, options: dict[str, Any]
) -> None:
    inputs = operands(format, 1)
    outputs = dict.fromkeys(("p", "q", "r", "s"), ((COUNT,), format))
    with interpret(**options):
        p, q, r, s = run_tiles("p = x * y\nq = -p\nr = q - z\ns = z - q", inputs, outputs)
    x, y, z = inputs.values()
    np.testing.assert_array_equal(p, x * y)
    np.testing.assert_array_equal(q, -(x * y))
    if minus_subtracts():
        np.testing.assert_array_equal(r, q - z)
        np.testing.assert_array_equal(s, z - q)
    else:
        assert s.tolist() == [fused(*numbers, format) for numbers in zip(x, y, z, strict=True)]
        assert r.tolist() == [-e for e in s.tolist()]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_product_from_outside_a_loop_is_not_fused(options: dict[str, Any]) -> None:
    inputs = operands(F32, 2)
    body = "p = x * y\nr = z\nfor _ in range(1, 3):\n    r = p - r"
    with interpret(**options):
        (got,) = run_tiles(body, inputs, {"r": ((COUNT,), F32)})
    x, y, z = inputs.values()
    np.testing.assert_array_equal(got, x * y - (x * y - z))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
def test_enable_fp_fusion_disables_fusion(format: Format, options: dict[str, Any]) -> None:
    inputs = operands(format, 3)
    text = "@triton.jit\ndef kernel(x_ptr, y_ptr, z_ptr, r_ptr):\n"
    text += f"    i = tl.arange(0, {COUNT})\n"
    text += "    x, y, z = tl.load(x_ptr + i), tl.load(y_ptr + i), tl.load(z_ptr + i)\n"
    text += "    tl.store(r_ptr + i, x * y - z)\n"
    result = kernel_text.empty((COUNT,), format)
    with interpret(**options):
        kernel_text.kernel(text)[(1,)](
            *map(kernel_text.to_torch, inputs.values()), result, enable_fp_fusion=False
        )
    x, y, z = inputs.values()
    np.testing.assert_array_equal(kernel_text.to_numpy(result), x * y - z)
