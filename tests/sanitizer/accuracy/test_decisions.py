"""Comparisons of exact values, and the bits of lanes that a sort exchanges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.interpreter.eager.elements import Handle, element
from ttools.sanitizer.accuracy.decisions import (
    Decisions,
    FloatBits,
    Truth,
    alternatives_differ,
    compare,
    comparison_text,
)
from ttools.sanitizer.accuracy.shadow import NOTHING, Shadow, with_row

_F32 = element("f32")


def _value(actual: object, exact: object = None) -> Handle:
    handle = Handle(np.asarray(actual, np.float32), _F32)
    if exact is not None:
        handle.shadow = Shadow(np.asarray(exact, np.float64))
    return handle


@pytest.mark.parametrize(
    ("operation", "results"),
    [
        ("fcmpOLT", [True, False, False, False]),
        ("fcmpOLE", [True, True, False, False]),
        ("fcmpOGT", [False, False, True, False]),
        ("fcmpOEQ", [False, True, False, False]),
        ("fcmpUNE", [True, False, True, True]),
        ("fcmpUGE", [False, True, True, True]),
    ],
)
def test_comparisons(operation: str, results: list[bool]) -> None:
    first, second = np.array([1.0, 2.0, 3.0, np.nan]), np.full(4, 2.0)
    assert compare(operation, first, second).tolist() == results
    assert comparison_text("fcmpOLE") == "a <= b"


def test_alternatives_that_are_as_close_as_their_errors_do_not_differ() -> None:
    spacing = 2.0**-23
    x, zero, one = (
        _value([0.0, 3.0, 1e-8], [1e-7, 3.0, -1e-8]),
        _value([0.0] * 3),
        _value([1.0] * 3),
    )
    assert alternatives_differ(x, zero, spacing).tolist() == [False, True, False]
    assert alternatives_differ(one, zero, spacing).tolist() == [True] * 3
    infinite = _value([-np.inf] * 3)
    assert not alternatives_differ(infinite, infinite, spacing).any()
    assert alternatives_differ(infinite, one, spacing).all()


@given(st.integers(0, 2), st.integers(0, 2**32))
def test_a_sort_exchanges_the_shadows_of_its_lanes(axis: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    exact = random.standard_normal((2, 2, 2))
    value = _value(exact.astype(np.float32))
    value.shadow = Shadow(exact, with_row(None, 0, exact - value.data))
    words = value.data.view(np.int32)
    other = (words ^ (words ^ np.flip(words, axis))).view(np.float32)
    shadow = FloatBits(value).shadow_of(Handle(other, _F32))
    assert shadow is not None
    assert np.array_equal(shadow.exact, np.flip(exact, axis))
    assert np.array_equal(shadow.row(0), np.flip(exact - value.data, axis))
    assert FloatBits(value).shadow_of(Handle(other + np.float32(1), _F32)) is None
    same = FloatBits(value).at((0,)).shadow_of(value.at((0,)))
    assert same is not None
    assert np.array_equal(same.exact, exact[0])


def test_decisions_are_kept_with_their_clearest_case_and_their_uses() -> None:
    decisions = Decisions(lambda: None)
    actual = np.array([1.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0])
    exact = np.array([1.0, 1.5, 2.0]), np.array([1.0, 1.0, 1.0])
    differs = np.array([False, True, True])
    number = decisions.add("a > b", ("a", "b"), actual, exact, differs)
    (decision,) = decisions.table
    assert decision.exact == (("a", 2.0), ("b", 1.0))
    truth = Truth(np.array([False, True, True]), np.where(differs, number, NOTHING))
    decisions.use("where", truth, np.array([True, True, False]))
    decisions.use("where", truth.moved(np.flip, np.flip), np.array([True, False, False]))
    decisions.use("mask", truth.at(0), np.ones((), bool))
    (use,) = decision.uses.values()
    assert (use.what, use.lanes) == ("where", 2)
