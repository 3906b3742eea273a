"""Tests of conversions between all pairs of formats, with all values of small formats."""

from __future__ import annotations

from collections.abc import Mapping

import kernel_text
import ml_dtypes
import numpy as np
import pytest
from joint_kernels import Cases, elementwise, evaluate
from number_formats import (
    ALL,
    BF16,
    BOOL,
    E4M3,
    E5M2,
    F16,
    F32,
    F64,
    FLOATS,
    FP8,
    I8,
    I32,
    I64,
    SMALL_FLOATS,
    U8,
    Array,
    Format,
    assert_same,
    convert,
    empty,
    samples,
    to_numpy,
    to_torch,
)

pytestmark = [
    pytest.mark.usefixtures("schedule"),
    # NumPy warns about the special values that these tests need.
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


def cast(source: Format, target: Format, rounding: str = "") -> str:
    """Return the Triton expression that converts `x` to another format."""
    # Triton converts between 8-bit floats and integers only through another float format.
    by_float = (source in FP8) != (target in FP8) and not (source.is_float and target.is_float)
    expression = "x.to(tl.float32)" if by_float else "x"
    if source is not target:
        options = f", fp_downcast_rounding='{rounding}'" if rounding else ""
        expression += f".to(tl.{target.name}{options})"
    return expression


def run(source: Format, target: Format, values: Array, rounding: str = "") -> Array:
    (got,) = evaluate([(cast(source, target, rounding), target, [values])])
    return got


def assert_casts(source: Format, values: Mapping[Format, Array]) -> None:
    """Convert the values of each target format to it, and compare with the oracle."""
    cases = [(cast(source, target), target, [inputs]) for target, inputs in values.items()]
    for (_, target, (x,)), got in zip(cases, evaluate(cases), strict=True):
        assert_same(got, convert(x, source, target), target.name)


def representable(values: Array, source: Format, target: Format) -> Array:
    """Omit values whose conversion is unspecified or differs between GPUs."""
    wide = values.astype(np.float64)
    with np.errstate(all="ignore"):
        if source.is_float and not target.is_float and not target.is_bool:
            if target in (I32, I64):
                # The 32-bit integer for an f64 NaN differs from that for an f32 NaN.
                return values[~np.isnan(wide)] if source is F64 else values
            limits = np.iinfo(target.numpy)
            keep = (wide > limits.min - 1.0) & (wide < limits.max + 1.0)
            # The largest 64-bit values are not doubles: they would round to values out of range.
            return values[keep & (wide < 2.0 ** (target.bits if limits.min == 0 else 63))]
        if not source.is_float and target in (BF16, *FP8):
            return values[np.abs(wide) < 2**24]
    return values


@pytest.mark.parametrize("source", ALL, ids=lambda f: f.name)
def test_casts(source: Format) -> None:
    assert_casts(source, {f: representable(samples(source), source, f) for f in ALL})


@pytest.mark.parametrize("source", SMALL_FLOATS, ids=lambda f: f.name)
def test_every_value_of_a_small_float(source: Format) -> None:
    carrier = np.uint8 if source in FP8 else np.uint16
    values = np.arange(2**source.bits, dtype=carrier).view(source.numpy)
    assert_casts(source, dict.fromkeys(FLOATS, values))


@pytest.mark.parametrize("target", SMALL_FLOATS, ids=lambda f: f.name)
def test_f32_around_every_rounding_boundary(target: Format) -> None:
    carrier = np.uint8 if target in FP8 else np.uint16
    every = np.arange(2**target.bits, dtype=carrier).view(target.numpy).astype(np.float32)
    every = np.unique(every[np.isfinite(every)])
    middles = ((every[:-1].astype(np.float64) + every[1:]) / 2).astype(np.float32)
    values = np.concatenate([
        every, middles, np.nextafter(middles, np.float32(np.inf)),
        np.nextafter(middles, np.float32(-np.inf)),
        np.array([np.inf, -np.inf, np.nan, 1e38, -1e38, 1e-45, 460, 465, 6e4, 65519, 65520]),
    ]).astype(np.float32)  # fmt: skip
    assert_same(run(F32, target, values), convert(values, F32, target))


@pytest.mark.smoke
def test_conversions_by_the_hardware() -> None:
    x = np.array([1e20, -1e20, np.nan, 300.7, -1.5, np.inf], np.float32)
    low, high = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    low64, high64 = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    few = x[[0, 2, 3, 4]]
    eight = np.array([460, np.inf, -np.inf, 126.99], np.float32)
    cases = {
        I32: (x, [high, low, 0, 300, -1, high]),
        I64: (x, [high64, low64, low64, 300, -1, high64]),
        I8: (few, [-1, 0, 44, -1]),
        U8: (few, [255, 0, 44, 0]),
        E4M3: (eight, [448, 448, -448, 128]),
        E5M2: (eight, [448, 57344, -57344, 128]),
    }
    results = evaluate([(cast(F32, target), target, [v]) for target, (v, _) in cases.items()])
    for (target, (_, expected)), got in zip(cases.items(), results, strict=True):
        assert (got.astype(float) if target in FP8 else got).tolist() == expected, target.name


def test_doubles_round_once() -> None:
    # The first value exceeds the midpoint of two f16 values by less than the precision of f32.
    x = np.array([1 + 2**-11 + 2**-40, 1 + 2**-11, 1 + 3 * 2**-11 - 2**-40, 2049.0000001])
    assert_same(run(F64, F16, x), x.astype(np.float16))


@pytest.mark.parametrize("target", [F16, BF16], ids=lambda f: f.name)
def test_rounding_toward_zero(target: Format) -> None:
    x = np.random.default_rng(0).normal(0, 100, 1000).astype(np.float32)
    got = run(F32, target, x, rounding="rtz").astype(np.float32)
    nearest = x.astype(target.numpy).astype(np.float32)
    toward_zero = np.nextafter(nearest.astype(target.numpy), target.numpy.type(0))
    away = np.abs(nearest) > np.abs(x)
    expected = np.where(away, toward_zero.astype(np.float32), nearest)
    assert_same(got, expected.astype(np.float32))


SAME_BITS = [(F32, I32), (I32, F32), (F16, BF16), (BF16, F16), (E4M3, U8), (I8, E5M2), (F64, I64)]
BITCASTS = Cases(
    SAME_BITS,
    lambda case: elementwise(f"x.to(tl.{case[1]}, bitcast=True)", case[1], [samples(case[0])]),
    programs=2,
)


@pytest.mark.parametrize(("source", "target"), SAME_BITS, ids=lambda f: f.name)
def test_bitcast(source: Format, target: Format, schedule: str) -> None:
    got = to_numpy(BITCASTS.arguments((source, target), schedule)[0])
    assert got.tobytes() == samples(source).tobytes()


def test_a_chain_of_casts_keeps_each_rounding() -> None:
    x = np.random.default_rng(1).normal(0, 30, 700).astype(np.float32)
    out = empty(x.size, F32)
    expression = "x.to(tl.bfloat16).to(tl.float16).to(tl.float8e5).to(tl.float32)"
    kernel_text.elementwise(expression, 1)[(2,)](out, to_torch(x), x.size, BLOCK=512)
    expected = x.astype(ml_dtypes.bfloat16).astype(np.float16)
    assert_same(to_numpy(out), convert(expected, F16, E5M2).astype(np.float32))


def test_booleans_are_stored_as_zero_and_one() -> None:
    x = np.array([0, 2, 255, 256, -1] * 10, np.int32)
    got = run(I32, BOOL, x)
    assert got.view(np.uint8).tolist() == [0, 1, 1, 1, 1] * 10
