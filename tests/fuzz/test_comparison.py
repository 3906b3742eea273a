"""Tests of the comparison of a kernel's memory with the expected memory."""

from __future__ import annotations

import numpy as np
import pytest

from ttools.fuzz.comparison import compare
from ttools.fuzz.elements import F32, I1, I8, Array
from ttools.fuzz.program import Buffer

_F32 = Buffer("x", F32, 4, "out", "ramp", 0, 2)


def _compare(buffer: Buffer, expected: Array, actual: Array, **options: int) -> list[str]:
    before = np.zeros_like(expected)
    mismatches = compare({"x": buffer}, {"x": before}, {"x": expected}, {"x": actual}, **options)
    return [str(mismatch) for mismatch in mismatches]


def test_equal_memory_is_no_difference() -> None:
    x = np.arange(8, dtype=np.float32)
    assert _compare(_F32, x, x.copy()) == []


def test_margins_are_compared() -> None:
    expected = np.zeros(8, np.float32)
    actual = expected.copy()
    actual[7] = 3
    (mismatch,) = _compare(_F32, expected, actual)
    assert (
        mismatch == "x[5] is 3.0, expected 0.0, to which no program stores; 1 of 4 elements differ"
    )


def test_nans_are_equal_to_each_other_only() -> None:
    expected = np.array([np.nan] * 8, np.float32)
    other = (expected.view(np.uint32) | 1).view(np.float32)
    assert _compare(_F32, expected, other) == []
    assert _compare(_F32, expected, np.zeros(8, np.float32))


@pytest.mark.parametrize("signless", [False, True])
def test_zeros_of_both_signs(signless: bool) -> None:
    buffer = Buffer("x", F32, 4, "out", "ramp", 0, 2, signless=signless)
    zeros = np.zeros(8, np.float32)
    assert bool(_compare(buffer, zeros, -zeros)) is not signless


def test_units_in_the_last_place() -> None:
    buffer = Buffer("x", F32, 4, "out", "ramp", 0, 2, ulps=2)
    x = np.full(8, 1.5, np.float32)
    near = (x.view(np.int32) + 2).view(np.float32)
    far = (x.view(np.int32) + 3).view(np.float32)
    assert _compare(buffer, x, near) == []
    assert _compare(buffer, x, far)
    assert _compare(buffer, x, far, slack=1) == []
    assert _compare(buffer, x, np.full(8, np.nan, np.float32))


@pytest.mark.parametrize(("element", "kind"), [(I8, np.int8), (I1, np.bool_)])
def test_integers_are_compared_exactly(element: object, kind: type) -> None:
    buffer = Buffer("x", element, 4, "out", "ramp", 0, 2)  # type: ignore[arg-type]
    expected: Array = np.zeros(8, kind)
    actual = expected.copy()
    actual[3] = 1
    assert len(_compare(buffer, expected, actual)) == 1
