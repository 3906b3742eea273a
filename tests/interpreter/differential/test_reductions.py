"""Tests of reductions and scans: every axis, all built-in functions, and user-defined ones."""

from __future__ import annotations

import functools
from collections.abc import Callable

import kernel_text
import numpy as np
import pytest
import torch
from joint_kernels import Cases, Launch, tiles
from kernel_text import run_tiles
from number_formats import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I32,
    I64,
    U8,
    U32,
    Array,
    Format,
    assert_same,
    small_samples,
    to_numpy,
    to_torch,
)

pytestmark = pytest.mark.usefixtures("schedule")

SHAPES = [(1,), (2,), (16,), (64,), (2048,), (16, 64), (64, 4), (1, 32), (4, 8, 16), (2, 64, 2)]
AXES = [(shape, axis) for shape in SHAPES for axis in range(len(shape))]


def values(shape: tuple[int, ...], format: Format, seed: int = 0) -> Array:
    return small_samples(format, int(np.prod(shape)), seed).reshape(shape)


def without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


def reductions(case: tuple[tuple[int, ...], int]) -> Launch:
    shape, axis = case
    body = f"""
    total = tl.sum(x, {axis})
    largest = tl.max(x, {axis})
    smallest = tl.min(x, {axis})
    where_largest = tl.argmax(x, {axis})
    where_smallest = tl.argmin(i, {axis})
    odd = tl.xor_sum(i, {axis})
    kept = tl.sum(i, {axis}, keep_dims=True) + i
    """
    left = without(shape, axis)
    return tiles(
        body,
        {"x": values(shape, F32), "i": values(shape, I32, 1)},
        {
            "total": (left, F32), "largest": (left, F32), "smallest": (left, F32),
            "where_largest": (left, I32), "where_smallest": (left, I32), "odd": (left, I32),
            "kept": (shape, I32),
        },
    )  # fmt: skip


REDUCTIONS = Cases(AXES, reductions)


@pytest.mark.parametrize(("shape", "axis"), AXES, ids=str)
def test_built_in_reductions(shape: tuple[int, ...], axis: int, schedule: str) -> None:
    # With small integers, sums are exact in any order, and maxima occur more than once.
    x, i, *got = map(to_numpy, REDUCTIONS.arguments((shape, axis), schedule))
    expected = [
        x.sum(axis), x.max(axis), x.min(axis), x.argmax(axis).astype(np.int32),
        i.argmin(axis).astype(np.int32), np.bitwise_xor.reduce(i, axis),
        i.sum(axis, keepdims=True, dtype=np.int32) + i,
    ]  # fmt: skip
    for result, want in zip(got, expected, strict=True):
        assert_same(result, np.asarray(want))


#: Format of the elements, and the format in which `tl.sum` adds them.
SUMS = [(F64, F64), (F16, F16), (BF16, F32), (I8, I32), (U8, U32), (I64, I64), (BOOL, I32)]


def sums(case: tuple[Format, Format]) -> Launch:
    format, adds = case
    # The sums are so small that they are exact in bf16 in any order.
    return tiles(
        "a = tl.sum(x, 0)\nb = tl.sum(x, 1)\nc = tl.sum(tl.sum(x, 1), 0)\nd = tl.sum(x)",
        {"x": values((8, 32), format)},
        {"a": ((32,), adds), "b": ((8,), adds), "c": ((), adds), "d": ((), adds)},
    )


SUMS_OF_FORMATS = Cases(SUMS, sums)


@pytest.mark.parametrize(("format", "adds"), SUMS, ids=lambda f: f.name)
def test_sum_of_every_format(format: Format, adds: Format, schedule: str) -> None:
    x, *got = map(to_numpy, SUMS_OF_FORMATS.arguments((format, adds), schedule))
    wide = x.astype(np.float64)
    for result, want in zip(got, [wide.sum(0), wide.sum(1), wide.sum(), wide.sum()], strict=True):
        assert_same(result, np.asarray(want).astype(adds.numpy))


def extremes(format: Format) -> Launch:
    rng = np.random.default_rng(2)
    low = 0 if format in (U8, U32) else -100
    x = rng.integers(low, 100, (16, 32)).astype(np.float32).astype(format.numpy)
    # Triton compares bf16 in f32 and small integers in 32 bits, and converts the result back.
    body = "a = tl.max(x, 0)\nb = tl.min(x, 1)\nc = tl.argmin(x, 0)"
    return tiles(body, {"x": x}, {"a": ((32,), format), "b": ((16,), format), "c": ((32,), I32)})


COMPARED = (F64, F16, BF16, I8, U8, U32, I64)
EXTREMES = Cases(COMPARED, extremes)


@pytest.mark.parametrize("format", COMPARED, ids=lambda f: f.name)
def test_extremes_of_every_format(format: Format, schedule: str) -> None:
    x, *got = map(to_numpy, EXTREMES.arguments(format, schedule))
    wide = x.astype(np.float64)
    assert_same(got[0], wide.max(0).astype(format.numpy))
    assert_same(got[1], wide.min(1).astype(format.numpy))
    assert_same(got[2], wide.argmin(0).astype(np.int32))


@pytest.mark.smoke
def test_not_a_number_in_reductions() -> None:
    x = np.array([[1, np.nan, 3, 2], [np.nan] * 4], np.float32)
    got = run_tiles(
        "a = tl.max(x, 1)\nb = tl.min(x, 1)\nc = tl.sum(x, 1)",
        {"x": x},
        dict.fromkeys("abc", ((2,), F32)),
    )
    nan = np.nan
    for result, want in zip(got, [[3, nan], [1, nan], [nan, nan]], strict=True):
        assert_same(result, np.array(want, np.float32))


def test_a_long_float_sum_is_accurate() -> None:
    x = np.random.default_rng(3).normal(0, 1, 8192).astype(np.float32)
    (got,) = run_tiles("r = tl.sum(x, 0)", {"x": x}, {"r": ((), F32)})
    assert abs(float(got) - x.astype(np.float64).sum()) < 1e-3


COMBINES = """
@triton.jit
def product(a, b):
    return a * b

@triton.jit
def later(a, b):
    return b

@triton.jit
def welford(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    delta = mean_b - mean_a
    mean = mean_a + delta * n_b / n
    return mean, m2_a + m2_b + delta * delta * n_a * n_b / n, n

@triton.jit
def largest_with_index(a, i, b, j):
    take = (a > b) | ((a == b) & (i < j))
    return tl.where(take, a, b), tl.where(take, i, j)

@triton.jit
def recurrence(a, b, c, d):
    return a * c, b * c + d
"""


@pytest.mark.parametrize(("shape", "axis"), [((512,), 0), ((8, 64), 1), ((64, 8), 0)], ids=str)
def test_reduction_of_three_operands(shape: tuple[int, ...], axis: int) -> None:
    x = np.random.default_rng(4).normal(3, 2, shape).astype(np.float32)
    body = f"mean, m2, n = tl.reduce((x, x * 0, x * 0 + 1), {axis}, welford)"
    left = without(shape, axis)
    mean, m2, n = run_tiles(
        body, {"x": x}, dict.fromkeys(("mean", "m2", "n"), (left, F32)), COMBINES
    )
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean(axis), rtol=1e-5)
    np.testing.assert_allclose(m2 / n, wide.var(axis), rtol=1e-4)
    assert (n == shape[axis]).all()


IN_ORDER = """
@triton.jit
def matrices(a, b, c, d, e, f, g, h):
    return a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h

@triton.jit
def last(a, b):
    return b

@triton.jit
def first_set(a, b):
    return tl.where(a != 0, a, b)

@triton.jit
def last_of_equals(a, i, b, j):
    return tl.where(a > b, a, b), tl.where(a > b, i, j)
"""


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((2,), 0), ((16,), 0), ((256,), 0), ((64, 4), 0), ((4, 64), 1), ((8, 2, 4), 0)],
    ids=str,
)
def test_reduction_that_does_not_commute(shape: tuple[int, ...], axis: int) -> None:
    rng = np.random.default_rng(7)
    a, b, c, d = (rng.integers(-9, 9, shape).astype(np.int64) for _ in range(4))
    i = np.indices(shape)[axis].astype(np.int32)
    left = without(shape, axis)
    names = ("p", "q", "r", "s", "z", "y", "v")
    *product, z, y, v, k = run_tiles(
        f"""
        p, q, r, s = tl.reduce((a, b, c, d), {axis}, matrices)
        z = tl.reduce(a, {axis}, last)
        y = tl.reduce(b, {axis}, first_set)
        v, k = tl.reduce((c, i), {axis}, last_of_equals)
        """,
        {"a": a, "b": b, "c": c, "d": d, "i": i},
        {**dict.fromkeys(names, (left, I64)), "k": (left, I32)},
        IN_ORDER,
    )
    factors = np.moveaxis(np.stack([a, b, c, d]), axis + 1, 1)
    factors = np.moveaxis(factors.reshape(2, 2, *factors.shape[1:]), (0, 1), (-2, -1))
    expected = functools.reduce(np.matmul, factors)
    assert_same(np.stack(product), np.moveaxis(expected.reshape(*left, 4), -1, 0).copy())
    assert_same(z, np.take(a, -1, axis))
    where = np.expand_dims(np.argmax(b != 0, axis), axis)
    assert_same(y, np.take_along_axis(b, where, axis).squeeze(axis))
    assert_same(v, c.max(axis))
    assert_same(k, (shape[axis] - 1 - np.argmax(np.flip(c, axis), axis)).astype(np.int32))


def test_reduction_of_operands_of_two_types() -> None:
    x = values((16, 128), F32)
    i = np.repeat(np.arange(128, dtype=np.int64)[None], 16, 0)
    body = "v, k = tl.reduce((x, i), 1, largest_with_index)\np = tl.reduce(x, 0, product)"
    v, k, p = run_tiles(
        body,
        {"x": x, "i": i},
        {"v": ((16,), F32), "k": ((16,), I64), "p": ((128,), F32)},
        COMBINES,
    )
    assert_same(v, x.max(1))
    assert_same(k, x.argmax(1))
    assert_same(p + np.float32(0), x.prod(0) + np.float32(0))


def test_max_with_indices_and_ties() -> None:
    x = np.array([[1, 5, 5, 2], [7, 7, 7, 7], [0, -1, -2, -3], [-5, 0, 0, -5]], np.float32)
    body = """
    v, k = tl.max(x, 1, return_indices=True)
    w, m = tl.min(x, 0, return_indices=True)
    """
    v, k, w, m = run_tiles(
        body, {"x": x}, {"v": ((4,), F32), "k": ((4,), I32), "w": ((4,), F32), "m": ((4,), I32)}
    )
    assert v.tolist() == [5, 7, 0, 0]
    assert k.tolist() == [1, 0, 0, 1]
    assert w.tolist() == x.min(0).tolist()
    assert m.tolist() == x.argmin(0).tolist()


# --- scans ----------------------------------------------------------------------------------------


def scanned(function: Callable[..., Array], x: Array, axis: int, reverse: bool) -> Array:
    """Accumulate along an axis, from its end if reversed."""
    if not reverse:
        return function(x, axis=axis)
    return np.flip(function(np.flip(x, axis), axis=axis), axis)


def scans(case: tuple[tuple[int, ...], int]) -> Launch:
    shape, axis = case
    x = values(shape, F32)
    return tiles(
        f"""
        up = tl.cumsum(x, {axis})
        down = tl.cumsum(i, {axis}, reverse=True)
        product = tl.cumprod(s, {axis})
        """,
        {
            "x": x,
            "i": values(shape, I32, 1),
            "s": np.where(x > 0, np.float32(1), np.float32(-1)),
        },
        {"up": (shape, F32), "down": (shape, I32), "product": (shape, F32)},
    )


SCANS = Cases(AXES, scans)


@pytest.mark.parametrize(("shape", "axis"), AXES, ids=str)
def test_built_in_scans(shape: tuple[int, ...], axis: int, schedule: str) -> None:
    x, i, signs, *got = map(to_numpy, SCANS.arguments((shape, axis), schedule))
    assert_same(got[0] + np.float32(0), np.cumsum(x, axis, dtype=np.float32) + np.float32(0))
    assert_same(got[1], np.ascontiguousarray(scanned(np.cumsum, i, axis, True).astype(np.int32)))
    assert_same(got[2], np.cumprod(signs, axis, dtype=np.float32))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"), [((1024,), 0), ((4, 128), 1), ((128, 4), 0), ((4, 16, 8), 1)], ids=str
)
def test_scan_of_two_operands_that_does_not_commute(
    shape: tuple[int, ...], axis: int, reverse: bool
) -> None:
    rng = np.random.default_rng(5)
    a = rng.uniform(0.5, 1, shape).astype(np.float32)
    b = rng.normal(0, 1, shape).astype(np.float32)
    got = run_tiles(
        f"""
        p, q = tl.associative_scan((a, b), {axis}, recurrence, reverse={reverse})
        last = tl.associative_scan(a, {axis}, later, reverse={reverse})
        """,
        {"a": a, "b": b},
        {"p": (shape, F32), "q": (shape, F32), "last": (shape, F32)},
        COMBINES,
    )
    lanes = np.moveaxis(np.stack([a, b]).astype(np.float64), axis + 1, 1)
    lanes = lanes[:, ::-1] if reverse else lanes
    expected = np.empty_like(lanes)
    expected[:, 0] = lanes[:, 0]
    for t in range(1, lanes.shape[1]):
        expected[0, t] = expected[0, t - 1] * lanes[0, t]
        expected[1, t] = expected[1, t - 1] * lanes[0, t] + lanes[1, t]
    expected = expected[:, ::-1] if reverse else expected
    expected = np.moveaxis(expected, 1, axis + 1)
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-4, atol=1e-30)
    np.testing.assert_allclose(got[1], expected[1], rtol=1e-4, atol=1e-4)
    assert_same(got[2], a)


def sums_so_far(format: Format) -> Launch:
    x = np.random.default_rng(6).integers(0, 3, (8, 32)).astype(np.float32).astype(format.numpy)
    return tiles("r = tl.cumsum(x, 1)", {"x": x}, {"r": ((8, 32), format)})


SCANNED = (F64, F16, BF16, I64, U8)
SUMS_SO_FAR = Cases(SCANNED, sums_so_far)


@pytest.mark.parametrize("format", SCANNED, ids=lambda f: f.name)
def test_scan_of_every_format(format: Format, schedule: str) -> None:
    x, got = map(to_numpy, SUMS_SO_FAR.arguments(format, schedule))
    assert_same(got, np.cumsum(x.astype(np.float64), 1).astype(format.numpy))


def test_reduced_and_scanned_values_feed_each_other() -> None:
    x = values((32, 32), F32)
    body = """
    centred = x - tl.sum(x, 1)[:, None] / 32
    c = tl.cumsum(centred, 0)
    r = tl.max(c, 0)[None, :] - c + tl.sum(tl.sum(x, 0), 0)
    """
    (got,) = run_tiles(body, {"x": x}, {"r": ((32, 32), F32)})
    centred = x - x.sum(1, keepdims=True) / 32
    c = np.cumsum(centred.astype(np.float64), 0)
    np.testing.assert_allclose(got, c.max(0)[None] - c + x.sum(), atol=1e-4)


@pytest.mark.smoke
def test_reduction_in_a_masked_loop() -> None:
    text = """
    @triton.jit
    def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
        total = 0.0
        largest = tl.full((), float("-inf"), tl.float32)
        partial = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, n, BLOCK):
            lanes = start + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + lanes, mask=lanes < n, other=0.0)
            total += tl.sum(x, 0)
            partial += x
            largest = tl.maximum(largest, tl.max(tl.where(lanes < n, x, float("-inf")), 0))
        tl.store(out_ptr, total)
        tl.store(out_ptr + 1, largest)
        tl.store(out_ptr + 2, tl.sum(partial, 0))
    """
    x = values((1000,), F32)
    out = torch.empty(3)
    kernel_text.kernel(text)[(1,)](to_torch(x), out, 1000, BLOCK=128)
    assert out.tolist() == [x.sum(), x.max(), x.sum()]
