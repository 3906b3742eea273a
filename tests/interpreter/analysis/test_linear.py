"""Tests of upper bounds of linear expressions, compared with all points of a small space."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ttools.interpreter.analysis.linear import Bounds, Linear

NAMES = [("a",), ("b",), ("c",)]
NUMBERS = st.integers(-4, 4)
EXPRESSIONS = st.builds(
    lambda constant, factors: Linear(
        constant, {name: f for name, f in zip(NAMES, factors, strict=True) if f}
    ),
    st.integers(-12, 12),
    st.tuples(NUMBERS, NUMBERS, NUMBERS),
)
INTERVALS = st.tuples(st.integers(-3, 3), st.integers(0, 3)).map(lambda x: (x[0], x[0] + x[1]))


def value(expression: Linear, point: Any) -> int:
    return int(expression.constant + sum(f * point[a] for a, f in expression.terms.items()))


@given(
    EXPRESSIONS,
    st.lists(EXPRESSIONS, max_size=4),
    st.tuples(INTERVALS, INTERVALS, INTERVALS),
    st.integers(-20, 20),
    st.integers(0, 4),
)
def test_bounds_hold_at_all_points(expression, conditions, intervals, limit, ruled):
    bounds = Bounds()
    bounds.intervals = dict(zip(NAMES, intervals, strict=True))
    # The first conditions are rules of their unknowns, the others are passed with the query.
    for condition in conditions[:ruled]:
        for atom in condition.terms:
            bounds.rules.setdefault(atom, []).append(condition)
    greatest = None
    for numbers in product(*(range(low, high + 1) for low, high in intervals)):
        point = dict(zip(NAMES, numbers, strict=True))
        if all(value(c, point) <= 0 for c in conditions):
            actual = value(expression, point)
            greatest = actual if greatest is None else max(greatest, actual)
    shown = bounds.at_most(expression, limit, conditions[ruled:])
    if shown:
        assert greatest is None or greatest <= limit
    if not conditions:
        assert shown == (greatest <= limit)


@given(EXPRESSIONS, EXPRESSIONS, NUMBERS, st.tuples(INTERVALS, INTERVALS, INTERVALS))
def test_arithmetic(first, second, number, intervals):
    point = {name: low for name, (low, _) in zip(NAMES, intervals, strict=True)}
    assert value(first.plus(second, number), point) == value(first, point) + number * value(
        second, point
    )
    assert value(first.times(number), point) == number * value(first, point)
    assert all((*first.plus(second, number).terms.values(), *first.times(number).terms.values()))


def test_a_mask_limits_an_address():
    bounds = Bounds()
    lane, program = ("lane",), ("program",)
    bounds.intervals = {lane: (0, 63), program: (0, 15)}
    index = Linear(0, {lane: 1, program: 64})
    address = index.times(4)
    assert bounds.at_most(address, 4 * 1023, [])
    assert not bounds.at_most(address, 4 * 1000, [])
    assert bounds.at_most(address, 4 * 999, [index.plus(Linear(-999))])
    assert not bounds.at_most(address, 4 * 998, [index.plus(Linear(-999))])
