"""Spaces from TOML files: their configurations, and messages about invalid files."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.core.errors import UsageError
from ttools.tuner.space.expressions import Expression
from ttools.tuner.space.toml_space import load_space, read_space


def test_values_conditions_and_derived_parameters() -> None:
    space = read_space(
        {
            "parameters": {
                "A": {"powers_of_two": [16, 128]},
                "B": {"range": [32, 96, 32]},
                "EVEN": [True, False],
                "num_warps": [4],
            },
            "derived": {"C": "A * 2", "D": "min(C, B)"},
            "conditions": {"small": "A * B <= 2048", "not_odd": "EVEN or A == 16"},
        }
    )
    expected = [
        {"A": a, "B": b, "EVEN": even, "num_warps": 4, "C": 2 * a, "D": min(2 * a, b)}
        for a, b, even in itertools.product((16, 32, 64, 128), (32, 64, 96), (True, False))
        if a * b <= 2048 and (even or a == 16)
    ]
    assert list(space.configs) == expected
    assert str(space) == f"{len(expected)} of 24 combinations meet the conditions"
    first = space.triton_configs()[0]
    assert (first.num_warps, "num_warps" in first.kwargs) == (4, False)
    assert first.kwargs == {"A": 16, "B": 32, "EVEN": True, "C": 32, "D": 32}


@settings(max_examples=80)
@given(st.integers(1, 70), st.integers(1, 3000), st.integers(1, 7))
def test_ranges_agree_with_counting(first: int, last: int, step: int) -> None:
    expected = [n for n in range(first, last + 1) if (n - first) % step == 0]
    if expected:
        space = read_space({"parameters": {"A": {"range": [first, last, step]}}})
        assert [config["A"] for config in space.configs] == expected
    powers = [2**n for n in range(20) if first <= 2**n <= last]
    if powers and first in powers:
        space = read_space({"parameters": {"A": {"powers_of_two": [first, last]}}})
        assert [config["A"] for config in space.configs] == powers


NAMES = {"a": None, "b": None}
ATOMS = st.sampled_from(["a", "b", "1", "7", "True"])
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(
            inner, st.sampled_from(["+", "-", "*", "<", "<=", "==", "!=", "and", "or"]), inner
        ).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda t: f"(not {t})"),
        st.tuples(inner, inner).map(lambda t: f"max({t[0]}, {t[1]})"),
        st.tuples(inner, inner).map(lambda t: f"({t[0]} in [{t[1]}, 3])"),
        st.tuples(inner, inner).map(lambda t: f"(0 < {t[0]} <= {t[1]})"),
    ),
    max_leaves=8,
)


@settings(max_examples=150)
@given(EXPRESSIONS, st.integers(-5, 9), st.integers(-5, 9))
def test_expressions_agree_with_python(text: str, a: int, b: int) -> None:
    values = {"a": a, "b": b}
    expected = eval(text, {"max": max}, dict(values))
    assert Expression(text, NAMES).value(values) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a +", "is not an expression"),
        ("c < 1", "uses `c`, which is not a parameter; available: a, b"),
        ("__import__('os')", "uses `__import__"),
        ("a.real", "uses `a.real`, which is not supported"),
        ("a[0]", "uses `a\\[0\\]`"),
        ("a / b", "uses `a / b`"),
        ("(lambda: 1)()", "uses `\\(lambda: 1\\)\\(\\)`"),
        ("max(a, key=b)", "uses `max"),
    ],
)
def test_other_expressions_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        Expression(text, NAMES)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({}, r"the table \[parameters\] is missing or empty"),
        ({"parameters": {"A": []}}, "the space is empty: `A` has no values"),
        ({"parameters": {"A": {"range": [8, 4]}}}, "`A` has no values from 8 to 4"),
        ({"parameters": {"A": {"powers_of_two": [12, 64]}}}, "12 is not a power of two"),
        ({"parameters": {"A": {"range": [1, 9, 0]}}}, "the step must be positive"),
        ({"parameters": {"A": {"range": [1]}}}, r"takes \[first, last\] or \[first, last, step\]"),
        ({"parameters": {"A": 5}}, "`A`: give a list of values"),
        ({"parameter": {"A": [5]}}, r"`parameter` is not a table of a space"),
        (
            {"parameters": {"A": [1]}, "derived": {"A": "2"}},
            r"in both \[parameters\] and \[derived\]",
        ),
        ({"parameters": {"A": [1]}, "derived": {"B": 2}}, "must be an expression in quotes"),
        (
            {"parameters": {"A": [1]}, "conditions": {"c": "A // 0 > 1"}},
            "cannot be computed for A=1",
        ),
        (
            {"parameters": {"A": [1, 2]}, "conditions": {"large": "A > 2", "odd": "A == 1"}},
            "none of 2 combinations meets the condition `large`: A > 2",
        ),
        (
            {"parameters": {"A": [1, 2]}, "conditions": {"one": "A == 1", "two": "A == 2"}},
            r"violates a condition \(violations: `one` 1, `two` 1\)",
        ),
        (
            {"parameters": {n: {"range": [1, 1000]} for n in "AB"} | {"C": [1, 2]}},
            "2,000,000 combinations, more than 1,000,000",
        ),
    ],
)
def test_invalid_spaces(data: dict, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        read_space(data)


def test_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the space"):
        load_space(tmp_path / "none.toml")
    path = tmp_path / "space.toml"
    path.write_text("[parameters\n")
    with pytest.raises(UsageError, match="is not valid TOML"):
        load_space(path)
    path.write_text("[parameters]\n")
    with pytest.raises(UsageError, match=r"space\.toml: the space is empty"):
        load_space(path)
