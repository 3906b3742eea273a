"""Tests of `input_precision` for products of f32 tiles, compared with a model and with an H200.

For each precision, `dot_h200.json` contains two vectors of f32 and the product of every pair of
their elements, computed by an H200 with Triton 3.6.0, in base64.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joint_kernels import Cases, Launch, tiles
from kernel_text import run_tiles
from number_formats import F32, Array, to_numpy

from ttools.core.errors import UsageError
from ttools.interpreter import interpret

RECORDS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "dot_h200.json").read_text())
PRECISIONS = ("tf32", "tf32x3", "bf16x3", "bf16x6")


def cut(x: Array) -> Array:
    return (x.view(np.uint32) & 0xFFFFE000).view(np.float32)


def to_tf32(x: Array) -> Array:
    """Round to the nearest tf32, ties away from zero."""
    return ((x.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32)


def to_bf16(x: Array) -> Array:
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)


def parts(x: Array, precision: str) -> list[Array]:
    if precision == "tf32":
        return [cut(x)]
    if precision == "tf32x3":
        return [to_tf32(x), cut(x - to_tf32(x))]
    parts_ = []
    for _ in range(3 if precision == "bf16x6" else 2):
        parts_.append(to_bf16(x))
        x = x - parts_[-1]
    return parts_


def model(a: Array, b: Array, precision: str) -> Array:
    """Return the sum in f64 of those products of parts that a precision computes."""
    left, right = parts(a, precision), parts(b, precision)
    depth = {"tf32": 1, "tf32x3": 2, "bf16x3": 2, "bf16x6": 3}[precision]
    return sum(
        left[i].astype(np.float64) @ right[j].astype(np.float64)
        for i in range(len(left))
        for j in range(len(right))
        if i + j < depth
    )


def dot(a: Array, b: Array, precision: str, c: Array | None = None) -> Array:
    body = f"r = tl.dot(a, b{', c' if c is not None else ''}, input_precision='{precision}')"
    inputs = {"a": a, "b": b} | ({} if c is None else {"c": c})
    (got,) = run_tiles(body, inputs, {"r": ((a.shape[0], b.shape[1]), F32)})
    return got


def ulp_of_sums(a: Array, b: Array, c: Array | float = 0.0) -> Array:
    """Return the unit in the last place of the sum of the magnitudes of all products."""
    size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64) + np.abs(c)
    return np.exp2(np.floor(np.log2(np.maximum(size, 1e-30))) - 23)


SHAPES = [(16, 16, 16), (32, 16, 64), (64, 64, 32), (2, 4, 8)]


def tiles_of(shape: tuple[int, int, int]) -> tuple[Array, Array, Array]:
    """Return operands of M by K and K by N, and an accumulator."""
    m, n, k = shape
    rng = np.random.default_rng(0)
    a = (rng.normal(size=(m, k)) * 2.0 ** rng.integers(-4, 5, (m, k))).astype(np.float32)
    b, c = (rng.normal(size=size).astype(np.float32) for size in ((k, n), (m, n)))
    return a, b, c


def products(shape: tuple[int, int, int]) -> Launch:
    """Return the launch of products in every precision, without and with an accumulator."""
    outputs = {f"r_{precision}": ((*shape[:2],), F32) for precision in PRECISIONS}
    outputs |= {f"s_{precision}": ((*shape[:2],), F32) for precision in PRECISIONS}
    body = [
        f"r_{name} = tl.dot(a, b, input_precision='{name}')\n"
        f"s_{name} = tl.dot(a, b, c, input_precision='{name}')"
        for name in PRECISIONS
    ]
    return tiles("\n".join(body), dict(zip("abc", tiles_of(shape), strict=True)), outputs)


PRODUCTS = {shape: Cases([shape], products) for shape in SHAPES}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_products_of_parts(precision: str, shape: tuple[int, int, int], schedule: str) -> None:
    a, b, c = tiles_of(shape)
    results = PRODUCTS[shape].arguments(shape, schedule)[3:]
    number = PRECISIONS.index(precision)
    for result, start in ((results[number], 0.0), (results[number + len(PRECISIONS)], c)):
        got = to_numpy(result).astype(np.float64)
        error = np.abs(got - (model(a, b, precision) + start)) / ulp_of_sums(a, b, start)
        assert error.max() <= 6
    exact = a.astype(np.float64) @ b.astype(np.float64)
    lost = np.abs(model(a, b, precision) - exact).max()
    # The precision matters: the model differs from the exact product by more than rounding does.
    assert lost > 4 * ulp_of_sums(a, b).max() or precision in ("tf32x3", "bf16x6")


@pytest.mark.usefixtures("schedule")
@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["precision"])
def test_single_products_of_an_h200(record: dict[str, Any]) -> None:
    """Compare extreme values, midpoints of tf32, denormals, infinities and NaN."""
    left, right, gpu = (
        np.frombuffer(base64.b64decode(record[name]), np.float32)
        for name in ("left", "right", "products")
    )
    a = np.zeros((left.size, 16), np.float32)
    b = np.zeros((16, right.size), np.float32)
    a[:, 0], b[0] = left, right
    got, expected = dot(a, b, record["precision"]), gpu.reshape(left.size, right.size)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(expected))
    finite = np.isfinite(expected)
    error = np.abs(got[finite].astype(np.float64) - expected[finite])
    # A tensor core truncates sums, and the engine rounds them.
    assert (error <= 2 * np.spacing(np.abs(expected[finite]))).all()


def test_loops_and_transposed_operands() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 32, 32)).astype(np.float32)
    body = """
    r = tl.zeros((32, 32), tl.float32)
    for _ in range(2):
        r = tl.dot(a, tl.trans(b), r)
    s = a + b
    """
    outputs = {"r": ((32, 32), F32), "s": ((32, 32), F32)}
    with interpret():
        got, untouched = run_tiles(body, {"a": a, "b": b}, outputs)
    expected = 2 * model(a, np.ascontiguousarray(b.T), "tf32")
    assert (np.abs(got - expected) / ulp_of_sums(a, b.T)).max() <= 6
    # Other uses of the operands read the original values.
    np.testing.assert_array_equal(untouched, a + b)


@pytest.mark.parametrize("engine", ["native", "eager"])
def test_exact_products(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 16, 16)).astype(np.float32)

    def run(precision: str, **options: Any) -> bytes:
        with interpret(engine=engine, **options):  # type: ignore[arg-type]
            return dot(a, b, precision).tobytes()

    ieee, rounded = run("ieee"), run("tf32")
    assert rounded != ieee
    for precision in PRECISIONS:
        assert run(precision, dot="exact") == ieee
    monkeypatch.setenv("TTOOLS_DOT", "exact")
    assert run("tf32") == ieee
    assert run("tf32", dot="as-written") == rounded
    monkeypatch.setenv("TTOOLS_DOT", "precise")
    with pytest.raises(UsageError, match="TTOOLS_DOT=precise"):
        run("tf32")
    with pytest.raises(UsageError, match="dot='precise'"):
        run("tf32", dot="precise")


@pytest.mark.parametrize("precision", [*PRECISIONS, "ieee"])
def test_eager_programs_compute_the_same_products(precision: str) -> None:
    rng = np.random.default_rng(3)
    a, b, c = rng.normal(size=(3, 32, 32)).astype(np.float32)
    with interpret(engine="eager"):
        eager = dot(a, b, precision, c)
    with interpret():
        native = dot(a, b, precision, c)
    assert eager.tobytes() == native.tobytes()
