"""Tests that `dot="tensor-core"` computes the same bits as an H200 and as a model in NumPy.

`dot_sums_h200.json` contains tiles of 8 by 64 and 64 by 8 numbers, and the 64 sums that an H200
computed from them (Triton 3.6.0, `wgmma`), in base64.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_text import run_tiles
from number_formats import BF16, E5M2, F16, F32, F64, I8, I32, Array, Format

from ttools.interpreter import interpret

RECORDS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "dot_sums_h200.json").read_text()
)
FORMATS = {"f32": F32, "f16": F16, "bf16": BF16}
#: Number of products that are added in one step, and exponent of the smallest normal operand.
GROUPS = {"f32": (8, -126), "f16": (16, -14), "bf16": (16, -126)}


def dot(a: Array, b: Array, c: Array | None = None, precision: str = "tf32", **options: Any) -> Any:
    body = f"r = tl.dot(a, b{', c' if c is not None else ''}, input_precision='{precision}')"
    inputs = {"a": a, "b": b} | ({} if c is None else {"c": c})
    with interpret(**({"dot": "tensor-core"} | options)):
        (got,) = run_tiles(body, inputs, {"r": ((*a.shape[:-1], b.shape[-1]), F32)})
    return got


def assert_bits(got: Array, expected: Array) -> None:
    """Assert equal bits, except for those of NaN and the sign of zero."""
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    is_number = ~np.isnan(expected)
    np.testing.assert_array_equal(got[is_number], expected[is_number])


@pytest.mark.parametrize(
    "record", RECORDS, ids=lambda r: f"{r['type']}-{r['precision']}-{r['values']}"
)
def test_sums_of_an_h200(record: dict[str, Any]) -> None:
    def tile(name: str, type: Any, *shape: int) -> Array:
        return np.frombuffer(bytearray(base64.b64decode(record[name])), type).reshape(shape)

    type = FORMATS[record["type"]].numpy
    a, b = tile("left", type, 8, 64), tile("right", type, 64, 8)
    sums = tile("sums", np.float32, 8, 8)
    assert_bits(dot(a, b, precision=record["precision"]), sums)
    # The data show the difference: ordinary sums have other bits.
    assert (dot(a, b, precision=record["precision"], dot="as-written") != sums).any()


def exponents(x: Array, least: int) -> Array:
    """Return the floor of the binary logarithm, at least `least`; -10,000 for zeros."""
    logarithms = np.frexp(np.where(np.isfinite(x) & (x != 0), x, 1.0))[1] - 1
    return np.where(x == 0, -10_000, np.maximum(logarithms, least))


def cut_to_f32(x: Array) -> Array:
    """Round toward zero; values beyond the range become infinite."""
    with np.errstate(over="ignore"):
        near = x.astype(np.float32).astype(np.float64)
    toward_zero = np.nextafter(near.astype(np.float32), np.float32(0)).astype(np.float64)
    return np.where(np.isfinite(near) & (np.abs(near) > np.abs(x)), toward_zero, near)


def model(a: Array, b: Array, c: Array, type: str) -> Array:
    """Compute sums in f64 as a tensor core does.

    In each step the core adds the accumulator and a group of products. It truncates them to a
    common unit, 2**-25 of the power of two of the largest one, adds them exactly, and rounds the
    sum toward zero to f32.
    """
    size, least = GROUPS[type]
    if type == "f32":
        a, b = ((x.view(np.uint32) & 0xFFFFE000).view(np.float32) for x in (a, b))
    with np.errstate(invalid="ignore"):
        a, b, total = (np.asarray(x).astype(np.float64) for x in (a, b, c))
    left, right = exponents(a, least), exponents(b, least)
    for start in range(0, a.shape[1], size):
        group = slice(start, start + size)
        with np.errstate(invalid="ignore"):
            products = a[:, group, None] * b[None, group, :]
        sizes = np.where(products == 0, -10_000, left[:, group, None] + right[None, group, :])
        largest = np.maximum(sizes.max(axis=1), exponents(total, -126))
        unit = np.exp2(np.maximum(largest, -400).astype(np.float64) - 25)
        terms = np.concatenate([total[:, None, :], products], axis=1)
        finite = np.isfinite(terms).all(axis=1)
        with np.errstate(invalid="ignore"):
            cut = np.trunc(np.where(finite[:, None, :], terms, 0.0) / unit[:, None, :])
            special = terms.sum(axis=1)
        total = np.where(finite, cut_to_f32(cut.sum(axis=1) * unit), special)
    return total


def numbers(kind: str, format: Format, rng: np.random.Generator, *shape: int) -> Array:
    normal = rng.normal(size=shape)
    if kind == "wide":
        return (normal * np.exp2(rng.integers(-12, 13, shape))).astype(format.numpy)
    if kind == "sparse":
        scaled = normal * np.exp2(rng.integers(-30, 4, shape)) * (rng.random(shape) < 0.3)
        return scaled.astype(format.numpy)
    bits = rng.integers(0, 1 << format.bits, shape, dtype=np.uint64)
    values = bits.astype(f"u{format.bits // 8}").view(format.numpy)
    with np.errstate(invalid="ignore"):
        special = ~np.isfinite(values.astype(np.float64)) & (rng.random(shape) < 0.9)
    return np.where(special | (rng.random(shape) < 0.1), np.zeros_like(values), values)


@pytest.mark.usefixtures("schedule")
@pytest.mark.parametrize("kind", ["wide", "sparse", "bits"])
@pytest.mark.parametrize("type", GROUPS)
@pytest.mark.parametrize("shape", [(16, 16, 16), (2, 4, 8), (8, 32, 64)], ids=str)
def test_sums_of_the_model(shape: tuple[int, int, int], type: str, kind: str) -> None:
    m, n, k = shape
    rng = np.random.default_rng(5)
    for _ in range(4):
        a, b = (numbers(kind, FORMATS[type], rng, *extents) for extents in ((m, k), (k, n)))
        c = numbers(kind, F32, rng, m, n)
        assert_bits(dot(a, b, c), model(a, b, c, type).astype(np.float32))


def test_a_loop_and_a_batch() -> None:
    rng = np.random.default_rng(6)
    a, b = (numbers("wide", F16, rng, *shape) for shape in ((3, 16, 32), (3, 32, 16)))
    zeros = np.zeros((16, 16), np.float32)
    expected = [model(a[i], b[i], zeros, "f16") for i in range(3)]
    body = """
    r = tl.zeros((16, 16), tl.float32)
    for i in range(2):
        part = tl.arange(0, 2)[None, None, :] == i
        x = tl.sum(tl.where(part, tl.reshape(a, (16, 2, 16)).trans(0, 2, 1), 0.0), axis=2)
        y = tl.sum(tl.where(part, tl.reshape(b, (2, 16, 16)).trans(1, 2, 0), 0.0), axis=2)
        r = tl.dot(x.to(tl.float16), y.to(tl.float16), r)
    """
    with interpret(dot="tensor-core"):
        (got,) = run_tiles(body, {"a": a[0], "b": b[0]}, {"r": ((16, 16), F32)})
    assert_bits(got, expected[0].astype(np.float32))
    assert_bits(dot(a[:2], b[:2]), np.stack(expected[:2]).astype(np.float32))


@pytest.mark.parametrize("format", [E5M2, F64, I8], ids=lambda f: f.name)
def test_formats_without_a_model_are_unchanged(format: Format) -> None:
    rng = np.random.default_rng(8)
    a, b = (rng.integers(-20, 20, (32, 32)).astype(format.numpy) for _ in range(2))
    result = {F64: F64, I8: I32}.get(format, F32)
    results = []
    for mode in ("tensor-core", "as-written"):
        with interpret(dot=mode):  # type: ignore[arg-type]
            results += run_tiles("r = tl.dot(a, b)", {"a": a, "b": b}, {"r": ((32, 32), result)})
    np.testing.assert_array_equal(*results)
