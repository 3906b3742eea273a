"""Tests of conversions between floats, with all values of formats of at most 16 bits."""

from __future__ import annotations

import numpy as np
import pytest
from float_formats import (
    FP8,
    SHORT,
    all_values,
    assert_same_floats,
    boundaries,
    nearest,
    toward_zero,
)
from vector_jit import TYPES, Compiled, apply, build_narrow, build_widen

UNSIGNED_ZERO = ("f8E4M3FNUZ", "f8E5M2FNUZ", "f8E4M3B11FNUZ")


def expect(kind: str, values: np.ndarray) -> np.ndarray:
    """Adapt the oracle's result to the FNUZ formats, which have no -0."""
    return np.where(values == 0, 0.0, values) if kind in UNSIGNED_ZERO else values


@pytest.mark.parametrize("target", ["f32", "f64"])
@pytest.mark.parametrize("kind", SHORT)
def test_every_pattern_widens_exactly(kind: str, target: str) -> None:
    values = all_values(kind)
    assert_same_floats(
        apply("tt.fp_to_fp", [kind], [target], values), values.astype(np.float64), values
    )


@pytest.mark.parametrize("target", ["f16", "bf16"])
@pytest.mark.parametrize("kind", FP8)
def test_every_fp8_pattern_widens_to_16_bits(kind: str, target: str) -> None:
    values = all_values(kind)
    exact = values.astype(np.float64)
    assert_same_floats(
        apply("tt.fp_to_fp", [kind], [target], values), nearest(exact, target), values
    )


@pytest.mark.parametrize("kind", FP8)
@pytest.mark.parametrize("source", ["f16", "bf16"])
def test_every_16_bit_pattern_narrows_to_fp8(source: str, kind: str) -> None:
    values = all_values(source)
    expected = expect(kind, nearest(values.astype(np.float64), kind))
    assert_same_floats(
        apply("tt.fp_to_fp", [source], [kind], values, rounding="rtne"), expected, values
    )


@pytest.mark.parametrize(("source", "target"), [("f16", "bf16"), ("bf16", "f16")])
@pytest.mark.parametrize("rounding", ["rtne", "rtz"])
def test_every_16_bit_pattern_converts_to_the_other(
    source: str, target: str, rounding: str
) -> None:
    values = all_values(source)
    oracle = nearest if rounding == "rtne" else toward_zero
    assert_same_floats(
        apply("tt.fp_to_fp", [source], [target], values, rounding=rounding),
        oracle(values.astype(np.float64), target),
        values,
    )


@pytest.mark.parametrize("rounding", ["rtne", "rtz"])
@pytest.mark.parametrize("kind", SHORT)
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_boundaries_round_once(source: str, kind: str, rounding: str) -> None:
    values = boundaries(kind, source)
    oracle = nearest if rounding == "rtne" else toward_zero
    expected = expect(kind, oracle(values.astype(np.float64), kind))
    assert_same_floats(
        apply("tt.fp_to_fp", [source], [kind], values, rounding=rounding), expected, values
    )


@pytest.mark.parametrize("kind", SHORT)
def test_a_sample_of_all_f32_rounds_to_nearest(kind: str) -> None:
    values = np.arange(0, 1 << 32, 65521, dtype=np.uint64).astype(np.uint32).view(np.float32)
    expected = expect(kind, nearest(values.astype(np.float64), kind))
    assert_same_floats(apply("arith.truncf", ["f32"], [kind], values), expected, values)


def test_f64_rounds_to_f16_and_bf16_once() -> None:
    # The values exceed a midpoint of f16 and of bf16 by less than half a unit of f32.
    just_above = np.array([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-8 + 2.0**-40])
    assert apply("arith.truncf", ["f64"], ["f16"], just_above)[0] == 1 + 2.0**-10
    assert apply("arith.truncf", ["f64"], ["bf16"], just_above).astype(float)[1] == 1 + 2.0**-7


def test_f64_truncates_to_f32() -> None:
    values = np.array([1 + 2.0**-30, -1 - 2.0**-24 - 2.0**-30, 1e300, -np.inf, 2.0**-150, np.nan])
    expected = np.array([1, -1, np.finfo(np.float32).max, -np.inf, 0, np.nan])
    expected[1] = -1.0
    assert_same_floats(
        apply("tt.fp_to_fp", ["f64"], ["f32"], values, rounding="rtz"), expected, values
    )


@pytest.mark.parametrize("kind", FP8)
def test_fp8_saturates_and_keeps_nan(kind: str) -> None:
    largest = np.nanmax(np.where(np.isinf(all_values(kind).astype(float)), 0, all_values(kind)))
    values = np.array([np.inf, -np.inf, 1e30, -1e30, np.nan], np.float32)
    result = apply("tt.fp_to_fp", ["f32"], [kind], values).astype(np.float64)
    np.testing.assert_array_equal(result[:4], [largest, -largest, largest, -largest])
    assert np.isnan(result[4])


def test_fp8_conversions_of_an_h200() -> None:
    values = np.array([460, 126.99, np.inf], np.float32)
    e4m3 = apply("tt.fp_to_fp", ["f32"], ["f8E4M3FN"], values).astype(float)
    e5m2 = apply("tt.fp_to_fp", ["f32"], ["f8E5M2"], values).astype(float)
    assert e4m3.tolist() == [448, 128, 448]
    assert e5m2.tolist() == [448, 128, 57344]


@pytest.mark.parametrize("width", [1, 16])
@pytest.mark.parametrize("kind", [*SHORT, "f32", "f64"])
def test_the_exported_conversions(kind: str, width: int) -> None:
    values = (np.arange(-32, 32) / 8).astype(TYPES[kind])
    wide = np.empty(64, np.float32)
    Compiled(build_widen(kind, width))(values, wide, count=64)
    assert_same_floats(wide, values, values)
    back = np.empty(64, TYPES[kind])
    Compiled(build_narrow(kind, width))(wide, back, count=64)
    np.testing.assert_array_equal(back, values)


@pytest.mark.parametrize(
    ("source", "target"),
    [("f32", "i32"), ("f64", "i64"), ("f16", "i16"), ("bf16", "i16"), ("bf16", "f16")],
)
@pytest.mark.parametrize("op", ["tt.bitcast", "arith.bitcast"])
def test_bitcasts_keep_every_bit(op: str, source: str, target: str) -> None:
    size = np.dtype(TYPES[source]).itemsize
    bits = np.random.default_rng(0).integers(0, 256, 4096 * size, dtype=np.uint8)
    values = bits.view(TYPES[source])
    cast = apply(op, [source], [target], values)
    assert cast.tobytes() == values.tobytes()
    assert apply(op, [target], [source], cast).tobytes() == values.tobytes()


def test_fp8_bits_are_an_i8() -> None:
    values = all_values("f8E4M3FN")
    assert apply("tt.bitcast", ["f8E4M3FN"], ["i8"], values).tobytes() == values.tobytes()
