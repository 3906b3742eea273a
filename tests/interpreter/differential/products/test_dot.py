"""Tests of matrix products of tiles in every format and shape, including batches and loops."""

from __future__ import annotations

import kernel_text
import numpy as np
import pytest
import torch
from kernel_text import run_tiles
from number_formats import (
    BF16,
    E4M3,
    E5M2,
    F16,
    F32,
    F64,
    I8,
    I32,
    Array,
    Format,
    assert_same,
    small_samples,
    to_torch,
)

pytestmark = pytest.mark.usefixtures("schedule")

IEEE = ", input_precision='ieee'"
#: Format of the operands, format of the result, and further arguments of the call.
KINDS = [
    (F32, F32, IEEE),
    (F16, F32, ""),
    (BF16, F32, ""),
    (E4M3, F32, ""),
    (E5M2, F32, ""),
    (I8, I32, ""),
    (F16, F16, ", out_dtype=tl.float16"),
]
SHAPES = [(16, 16, 16), (32, 64, 16), (128, 32, 32), (16, 128, 64), (64, 64, 128)]


def matrix(shape: tuple[int, ...], format: Format, seed: int) -> Array:
    return small_samples(format, int(np.prod(shape)), seed).reshape(shape)


def product(a: Array, b: Array) -> Array:
    return a.astype(np.float64) @ b.astype(np.float64)


@pytest.mark.parametrize(("format", "out", "options"), KINDS, ids=str)
def test_formats(format: Format, out: Format, options: str) -> None:
    a, b = matrix((32, 64), format, 0), matrix((64, 16), format, 1)
    # Small integers are exact in every format and order of summation.
    (got,) = run_tiles(f"r = tl.dot(a, b{options})", {"a": a, "b": b}, {"r": ((32, 16), out)})
    assert_same(got + out.numpy.type(0), product(a, b).astype(out.numpy) + out.numpy.type(0))


@pytest.mark.parametrize(
    ("m", "n", "k"),
    [*SHAPES, (1, 16, 1), (4, 16, 2), (16, 1, 16), (2, 2, 8), (8, 4, 4), (8, 8, 32), (1, 64, 64)],
    ids=str,
)
def test_bytes(m: int, n: int, k: int) -> None:
    numbers = np.random.default_rng(0)
    # The product of two -128 is the largest; pairwise sums of such products overflow 16 bits.
    a, b = (
        np.where(numbers.random(shape) < 0.5, -128, numbers.integers(-128, 128, shape))
        for shape in ((m, k), (k, n))
    )
    c = numbers.integers(-(2**31), 2**31, (m, n)).astype(np.int32)
    inputs = {"a": a.astype(np.int8), "b": b.astype(np.int8), "c": c}
    out = {"r": ((m, n), I32)}
    (got,) = run_tiles("r = tl.dot(a, b, acc=c, out_dtype=tl.int32)", inputs, out)
    assert_same(got, (a.astype(np.int64) @ b + c).astype(np.int32))  # sums wrap


def test_batches_of_bytes() -> None:
    numbers = np.random.default_rng(1)
    a, b = (numbers.integers(-128, 128, shape) for shape in ((4, 16, 32), (4, 32, 8)))
    inputs = {"a": a.astype(np.int8), "b": b.astype(np.int8)}
    (got,) = run_tiles("r = tl.dot(a, b)", inputs, {"r": ((4, 16, 8), I32)})
    assert_same(got, (a @ b).astype(np.int32))


@pytest.mark.parametrize(("m", "n", "k"), SHAPES, ids=str)
def test_shapes_and_accumulators(m: int, n: int, k: int) -> None:
    a, b, c = matrix((m, k), F32, 0), matrix((k, n), F32, 1), matrix((m, n), F32, 2)
    body = f"""
    plain = tl.dot(a, b{IEEE})
    added = tl.dot(a * 2, b, c{IEEE})
    kept = c + 1
    """
    got = run_tiles(
        body,
        {"a": a, "b": b, "c": c},
        dict.fromkeys(("plain", "added", "kept"), ((m, n), F32)),
    )
    exact = product(a, b).astype(np.float32)
    for result, want in zip(got, [exact, 2 * exact + c, c + 1], strict=True):
        assert_same(result + np.float32(0), want + np.float32(0))


@pytest.mark.smoke
@pytest.mark.parametrize("format", [F32, F16], ids=lambda f: f.name)
def test_transposed_and_computed_operands(format: Format) -> None:
    a, b = matrix((64, 32), format, 0), matrix((16, 64), format, 1)
    body = f"""
    both = tl.dot(tl.trans(a), tl.trans(b){IEEE})
    swapped = tl.trans(tl.dot(b, a{IEEE}))
    squared = tl.dot(b, tl.trans(b){IEEE})
    shifted = tl.dot(tl.trans(a + 1), tl.trans(b){IEEE})
    """
    got = run_tiles(
        body,
        {"a": a, "b": b},
        {
            "both": ((32, 16), F32), "swapped": ((32, 16), F32),
            "squared": ((16, 16), F32), "shifted": ((32, 16), F32),
        },
    )  # fmt: skip
    product_of_transposed = product(a.T, b.T)
    expected = [
        product_of_transposed,
        product_of_transposed,
        product(b, b.T),
        product((a + format.numpy.type(1)).T, b.T),
    ]
    for result, want in zip(got, expected, strict=True):
        assert_same(result + np.float32(0), want.astype(np.float32) + np.float32(0))


@pytest.mark.parametrize("format", [F32, F16], ids=lambda f: f.name)
def test_batches(format: Format) -> None:
    a, b = matrix((4, 32, 16), format, 0), matrix((4, 16, 64), format, 1)
    (got,) = run_tiles(f"r = tl.dot(a, b{IEEE})", {"a": a, "b": b}, {"r": ((4, 32, 64), F32)})
    assert_same(got + np.float32(0), product(a, b).astype(np.float32) + np.float32(0))


def test_doubles() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(0, 1, (16, 32)), rng.normal(0, 1, (32, 16))
    body = f"r = tl.dot(a, b, out_dtype=tl.float64{IEEE})"
    (got,) = run_tiles(body, {"a": a, "b": b}, {"r": ((16, 16), F64)})
    np.testing.assert_allclose(got, a @ b, rtol=1e-12, atol=1e-12)


def test_random_values_are_summed_in_f32() -> None:
    rng = np.random.default_rng(4)
    a, b = (rng.normal(0, 1, (64, 64)).astype(np.float16) for _ in range(2))
    body = f"r = tl.dot(a, b)\nw = tl.dot(a.to(tl.float32), b.to(tl.float32){IEEE})"
    got = run_tiles(body, {"a": a, "b": b}, {"r": ((64, 64), F32), "w": ((64, 64), F32)})
    for result in got:
        np.testing.assert_allclose(result, product(a, b), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("format", [F32, BF16, E5M2], ids=lambda f: f.name)
@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 64), (50, 70, 33), (1, 1, 100)], ids=str)
def test_masked_loop(m: int, n: int, k: int, format: Format) -> None:
    text = """
    @triton.jit
    def kernel(a_ptr, b_ptr, c_ptr, M, N, K, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
        m = (tl.program_id(0) * TM + tl.arange(0, TM))[:, None]
        n = (tl.program_id(1) * TN + tl.arange(0, TN))[None, :]
        inner = tl.arange(0, TK)
        a_ptrs = a_ptr + m * K + inner[None, :]
        b_ptrs = b_ptr + inner[:, None] * N + n
        c = tl.zeros((TM, TN), tl.float32)
        for start in range(0, K, TK):
            a = tl.load(a_ptrs, mask=(m < M) & (inner[None, :] < K - start), other=0.0)
            b = tl.load(b_ptrs, mask=(n < N) & (inner[:, None] < K - start), other=0.0)
            c += tl.dot(a, b, input_precision="ieee")
            a_ptrs += TK
            b_ptrs += TK * N
        tl.store(c_ptr + m * N + n, c, mask=(m < M) & (n < N))
    """
    a, b = matrix((m, k), format, 0), matrix((k, n), format, 1)
    c = torch.full((m, n), -1.0)
    grid = (-(-m // 32), -(-n // 16))
    kernel_text.kernel(text)[grid](to_torch(a), to_torch(b), c, m, n, k, TM=32, TN=16, TK=32)
    assert_same(c.numpy() + np.float32(0), product(a, b).astype(np.float32) + np.float32(0))


def test_chained_products() -> None:
    q, k, v = (matrix((32, 32), F32, seed) for seed in range(3))
    body = f"""
    p = tl.dot(q, tl.trans(k){IEEE})
    r = tl.dot(tl.where(p > 0, p, 0.0), v{IEEE})
    r = tl.dot(r, q, r{IEEE})
    """
    (got,) = run_tiles(body, {"q": q, "k": k, "v": v}, {"r": ((32, 32), F32)})
    r = product(np.maximum(product(q, k.T), 0), v)
    np.testing.assert_allclose(got, r + product(r, q), rtol=1e-6)


def test_the_same_operand_on_both_sides_and_as_accumulator() -> None:
    a = matrix((16, 16), F32, 0)
    (got,) = run_tiles(f"r = tl.dot(a, a, a{IEEE}) + a", {"a": a}, {"r": ((16, 16), F32)})
    assert_same(got, (product(a, a) + 2 * a).astype(np.float32))
