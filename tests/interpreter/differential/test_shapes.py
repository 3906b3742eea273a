"""Tests of operations that only move values: broadcast, transpose, reshape, join, gather, sort."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from joint_kernels import Cases, Launch, tiles
from kernel_text import run_tiles
from number_formats import (
    BF16,
    BOOL,
    E5M2,
    F16,
    F32,
    F64,
    I8,
    I32,
    I64,
    Array,
    Format,
    assert_same,
    to_numpy,
)

pytestmark = pytest.mark.usefixtures("schedule")


def counted(shape: tuple[int, ...], format: Format = I32) -> Array:
    """Return values that are distinct, as far as the format has enough values."""
    return (np.arange(np.prod(shape)) % 251).reshape(shape).astype(np.float32).astype(format.numpy)


#: Expressions of x in Triton, with the same function in NumPy and the shape of x.
ONE_INPUT: dict[str, tuple[Callable[[Array], Array], tuple[int, ...]]] = {
    "x[None, :]": (lambda x: x[None], (32,)),
    "x[:, None]": (lambda x: x[:, None], (32,)),
    "tl.expand_dims(x, (0, 2))": (lambda x: x[None, :, None], (16,)),
    "tl.broadcast_to(x[:, None], (16, 32))": (lambda x: np.repeat(x[:, None], 32, 1), (16,)),
    "tl.broadcast_to(x[None, :], (32, 16))": (lambda x: np.repeat(x[None], 32, 0), (16,)),
    "tl.broadcast_to(x, (8, 16, 4))": (lambda x: np.broadcast_to(x, (8, 16, 4)), (8, 1, 4)),
    "tl.trans(x)": (lambda x: x.T, (16, 64)),
    "x.T + x.T": (lambda x: x.T + x.T, (32, 8)),
    "tl.permute(x, (2, 0, 1))": (lambda x: x.transpose(2, 0, 1), (4, 8, 16)),
    "tl.permute(x, (0, 2, 1))": (lambda x: x.transpose(0, 2, 1), (4, 8, 16)),
    "tl.permute(tl.trans(x, 1, 2, 0), (1, 0, 2))": (lambda x: x.transpose(2, 1, 0), (2, 8, 32)),
    "tl.reshape(x, (64, 8))": (lambda x: x.reshape(64, 8), (16, 32)),
    "tl.reshape(x, (4, 4, 2))": (lambda x: x.reshape(4, 4, 2), (32,)),
    "tl.reshape(tl.trans(x), (512,))": (lambda x: x.T.reshape(512), (16, 32)),
    "tl.trans(tl.reshape(x, (8, 64)))": (lambda x: x.reshape(8, 64).T, (512,)),
    "tl.ravel(x)": (lambda x: x.ravel(), (8, 4, 4)),
    "x.reshape(4, 8, 16).trans(0, 2, 1).reshape(64, 8)": (
        lambda x: x.reshape(4, 8, 16).transpose(0, 2, 1).reshape(64, 8), (32, 16)),
    "tl.flip(x, -1)": (lambda x: x[::-1], (64,)),
    "tl.flip(x, 0)": (lambda x: x[::-1], (8, 16)),
    "tl.flip(x, 1)": (lambda x: x[:, ::-1], (8, 16)),
    "tl.flip(x, 1) + x": (lambda x: x[:, ::-1] + x, (4, 8, 2)),
    "tl.sort(x)": (lambda x: np.sort(x), (64,)),
    "tl.sort(tl.flip(x, 1), descending=True)": (lambda x: np.sort(x, 1)[:, ::-1], (4, 32)),
    "tl.topk(x, 8)": (lambda x: np.sort(x)[::-1][:8], (64,)),
    "tl.full((4, 8), 7, tl.int32) + x": (lambda x: x + 7, (4, 8)),
    "tl.zeros_like(x) + tl.arange(0, 32)[None, :]": (
        lambda x: np.repeat(np.arange(32)[None], 2, 0), (2, 32)),
    "x + tl.trans(x)": (lambda x: x + x.T, (32, 32)),
}  # fmt: skip


def rearranged(expression: str) -> tuple[Array, Array]:
    """Return x and the expected value of an expression."""
    function, shape = ONE_INPUT[expression]
    x = counted(shape)
    if "sort" in expression or "topk" in expression:
        x = np.random.default_rng(0).permutation(x.ravel()).reshape(shape)
    return x, function(x).astype(np.int32)


def rearrangement(expression: str) -> Launch:
    x, expected = rearranged(expression)
    return tiles(f"r = {expression}", {"x": x}, {"r": (expected.shape, I32)})


REARRANGEMENTS = Cases(ONE_INPUT, rearrangement)


@pytest.mark.parametrize("expression", ONE_INPUT)
def test_rearrangement(expression: str, schedule: str) -> None:
    got = to_numpy(REARRANGEMENTS.arguments(expression, schedule)[-1])
    assert_same(got, np.ascontiguousarray(rearranged(expression)[1]))


@pytest.mark.parametrize("format", [F64, F16, BF16, E5M2, I8, I64, BOOL], ids=lambda f: f.name)
def test_every_width_of_element(format: Format) -> None:
    x = counted((16, 8), format)
    y = counted((16, 8), format)[::-1].copy()
    body = """
    t = tl.trans(x)
    j = tl.join(x, y)
    a, b = tl.split(j)
    c = tl.reshape(b, (8, 16))
    """
    got = run_tiles(
        body,
        {"x": x, "y": y},
        {name: (shape, format) for name, shape in
         {"t": (8, 16), "j": (16, 8, 2), "a": (16, 8), "c": (8, 16)}.items()},
    )  # fmt: skip
    expected = [x.T, np.stack([x, y], -1), x, y.reshape(8, 16)]
    for result, want in zip(got, expected, strict=True):
        assert_same(result, np.ascontiguousarray(want))


@pytest.mark.smoke
def test_join_split_interleave_and_cat() -> None:
    x, y = counted((32,)), counted((32,)) + 1000
    body = """
    joined = tl.join(x, y)
    even, odd = tl.split(tl.join(y, x) * 2)
    mixed = tl.interleave(x, y)
    both = tl.sort(tl.cat(x, y, can_reorder=True))
    nested = tl.join(tl.join(x, y), tl.join(y, x))
    """
    got = run_tiles(
        body,
        {"x": x, "y": y},
        {
            "joined": ((32, 2), I32), "even": ((32,), I32), "odd": ((32,), I32),
            "mixed": ((64,), I32), "both": ((64,), I32), "nested": ((32, 2, 2), I32),
        },
    )  # fmt: skip
    pair = np.stack([x, y], -1)
    expected = [pair, 2 * y, 2 * x, pair.reshape(64), np.sort(np.concatenate([x, y])),
                np.stack([pair, np.stack([y, x], -1)], -1)]  # fmt: skip
    for result, want in zip(got, expected, strict=True):
        assert_same(result, want)


@pytest.mark.parametrize(
    ("shape", "indices", "axis"),
    [((64,), (32,), 0), ((16, 8), (16, 8), 0), ((16, 8), (16, 4), 1), ((8, 16), (4, 16), 0),
     ((4, 8, 2), (4, 8, 2), 1)],
)  # fmt: skip
def test_gather_along_an_axis(shape: tuple[int, ...], indices: tuple[int, ...], axis: int) -> None:
    x = counted(shape, F32)
    i = np.random.default_rng(1).integers(0, shape[axis], indices).astype(np.int32)
    (got,) = run_tiles(f"r = tl.gather(x, i, {axis})", {"x": x, "i": i}, {"r": (indices, F32)})
    assert_same(got, np.take_along_axis(x, i, axis))


def test_a_computed_tile_rearranged_more_than_once() -> None:
    x = counted((16, 32), F32)
    body = """
    e = x * 2 + 1
    t = tl.trans(e)
    s = tl.trans(tl.reshape(t, (64, 8))) + tl.reshape(e, (8, 64))
    u = tl.reshape(tl.trans(s), (512,)) - tl.reshape(t, (512,))
    """
    got = run_tiles(body, {"x": x}, {"s": ((8, 64), F32), "u": ((512,), F32)})
    e = x * 2 + 1
    s = e.T.reshape(64, 8).T + e.reshape(8, 64)
    assert_same(got[0], s)
    assert_same(got[1], s.T.reshape(512) - e.T.reshape(512))


def test_a_transposed_store_and_a_transposed_load() -> None:
    x = counted((16, 64), F32)
    body = """
    columns = tl.load(x_ptr + tl.arange(0, 64)[:, None] + tl.arange(0, 16)[None, :] * 64)
    r = columns + tl.trans(x)
    """
    (got,) = run_tiles(body, {"x": x}, {"r": ((64, 16), F32)})
    assert_same(got, np.ascontiguousarray(2 * x.T))


def test_small_tiles_down_to_one_element() -> None:
    x = counted((1, 1))
    y = counted((2,))
    body = """
    a = tl.trans(x) + 1
    b = tl.reshape(x, (1,)) * 3
    c = tl.broadcast_to(x, (2, 2)) + y[None, :]
    d = tl.join(y, y)
    """
    got = run_tiles(
        body,
        {"x": x, "y": y},
        {"a": ((1, 1), I32), "b": ((1,), I32), "c": ((2, 2), I32), "d": ((2, 2), I32)},
    )
    for result, want in zip(
        got, [x + 1, x.reshape(1) * 3, np.stack([y, y]) + x[0, 0], np.stack([y, y], -1)],
        strict=True,
    ):  # fmt: skip
        assert_same(result, want.astype(np.int32))
