"""Tests of the oracle's conversions, compared with torch and with exact integer arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.fuzz.elements import (
    BF16,
    F16,
    F32,
    F64,
    FLOATS,
    FP8,
    FP8E4NV,
    FP8E5,
    I8,
    I16,
    I32,
    I64,
    INTEGERS,
    U8,
    U16,
    U64,
    Element,
)
from ttools.fuzz.rounding import convert, ordered


def _nearest(value: int, element: Element) -> float:
    """Round an integer to the precision of a float type, ties to even, in integer arithmetic."""
    size, sign = abs(value), -1 if value < 0 else 1
    spare = max(0, size.bit_length() - element.digits)
    kept, remainder = size >> spare, size & ((1 << spare) - 1)
    half = 1 << spare >> 1
    if spare and (remainder > half or (remainder == half and kept & 1)):
        kept += 1
    return float(sign * Fraction(kept * 2**spare))


@settings(max_examples=200)
@given(
    value=st.one_of(
        st.integers(0, 2**64 - 1), st.sampled_from([2**64 - 1, 2**63 + 2**55, 2**53 + 1])
    )
)
@pytest.mark.parametrize("element", [BF16, F32, F64], ids=lambda e: e.name)
def test_unsigned_integers_round_once(element: Element, value: int) -> None:
    converted = convert(np.array([value], np.uint64), U64, element)
    assert float(converted[0]) == _nearest(value, element)


@settings(max_examples=200)
@given(value=st.integers(-(2**63), 2**63 - 1))
@pytest.mark.parametrize("element", [BF16, F32, F64], ids=lambda e: e.name)
def test_signed_integers_round_once(element: Element, value: int) -> None:
    converted = convert(np.array([value], np.int64), I64, element)
    assert float(converted[0]) == _nearest(value, element)


@pytest.mark.parametrize("element", [F16, BF16], ids=lambda e: e.name)
def test_narrowing_floats_agrees_with_torch(element: Element) -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 20_000, dtype=np.uint32)
    x = bits.view(np.float32)
    x = x[~np.isnan(x)]
    converted = convert(x, F32, element)
    expected = torch.tensor(x).to(getattr(torch, element.torch)).view(torch.int16).numpy()
    assert (converted.view(np.int16) == expected).all()


@pytest.mark.parametrize("element", FP8, ids=lambda e: e.name)
def test_8_bit_floats_saturate_and_round_to_even(element: Element) -> None:
    x = np.array([1e9, -1e9, np.inf, -np.inf, 1.0625, 1.1875, -0.0], np.float32)
    converted = convert(x, F32, element).astype(np.float32)
    assert converted[:4].tolist() == [element.largest, -element.largest] * 2
    expected = {FP8E5: [1.0, 1.25], FP8E4NV: [1.0, 1.25]}[element]
    assert converted[4:6].tolist() == expected
    assert np.signbit(converted[6])
    assert np.isnan(convert(np.array([np.nan], np.float32), F32, element).astype(np.float32))[0]


@pytest.mark.parametrize(
    ("value", "element", "wanted"),
    [
        (3e9, I32, 2**31 - 1),
        (-3e9, I32, -(2**31)),
        (float("nan"), I32, 0),
        (float("nan"), I64, -(2**63)),
        (1e30, I64, 2**63 - 1),
        (40000.0, I16, 32767),
        (40000.0, I8, -1),
        (70000.0, U8, 255),
        (-5.0, U16, 0),
        (-7.9, I32, -7),
    ],
)
def test_floats_to_integers_saturate(value: float, element: Element, wanted: int) -> None:
    assert int(convert(np.array([value], np.float32), F32, element)[0]) == wanted


@pytest.mark.parametrize("source", INTEGERS, ids=lambda e: e.name)
@pytest.mark.parametrize("target", INTEGERS, ids=lambda e: e.name)
def test_integers_wrap(source: Element, target: Element) -> None:
    x = np.array([source.low, source.high, 0, 1, 127], source.numpy)
    converted = [int(v) for v in convert(x, source, target)]
    for value, wrapped in zip(x.tolist(), converted, strict=True):
        assert (wrapped - value) % 2**target.bits == 0
        assert target.low <= wrapped <= target.high


@pytest.mark.parametrize("element", FLOATS, ids=lambda e: e.name)
def test_order_is_that_of_the_floats(element: Element) -> None:
    x = np.array([-2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0]).astype(element.numpy)
    ranks = ordered(x, element)
    assert (np.diff(ranks) >= 0).all()
    assert ranks[2] == ranks[3]
