"""Tests of the formatting of numbers in reports."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.reports.numbers import (
    amount,
    elapsed,
    is_known,
    mebibytes,
    number,
    percent,
    rounded_percent,
    seconds,
)

_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12}
_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.5, "2.5 s"),
        (1e-3, "1 ms"),
        (1.2345e-5, "12.3 us"),
        (5e-9, "5 ns"),
        (0.0, "0"),
        (-2e-3, "-2 ms"),
        (999.9e-6, "1 ms"),
        (123_456.0, "123,456 s"),
        (None, ""),
        (math.nan, ""),
    ],
)
def test_times(value: float | None, text: str) -> None:
    assert seconds(value) == text


def test_more_digits() -> None:
    assert seconds(1.23456e-5, digits=4) == "12.35 us"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (268e6, "", "268M"),
        (1.05e6, "B", "1.05 MB"),
        (12, "B", "12 B"),
        (0, "B", "0 B"),
        (999_999, "B", "1 MB"),
        (0.25, "", "0.25"),
        (2e18, "", "2,000,000T"),
        (None, "B", ""),
    ],
)
def test_amounts(value: float | None, unit: str, text: str) -> None:
    assert amount(value, unit) == text


@given(st.floats(1e-12, 1e5))
def test_times_can_be_parsed_back(value: float) -> None:
    text, unit = seconds(value).replace(",", "").split(" ")
    assert float(text) * _TIMES[unit] == pytest.approx(value, rel=0.0051)
    assert unit == "s" or 1 <= float(text) < 1000


@given(st.floats(1, 1e17))
def test_amounts_can_be_parsed_back(value: float) -> None:
    match = re.fullmatch(r"([\d.]+)([kMGT]?)", amount(value).replace(",", ""))
    assert match is not None
    assert float(match[1]) * _PREFIXES[match[2]] == pytest.approx(value, rel=0.0051)
    assert match[2] == "T" or 1 <= float(match[1]) < 1000


def test_shares_sizes_and_waits() -> None:
    assert [percent(n) for n in (0.1254, 1.0, None, math.nan)] == ["12.5%", "100.0%", "", ""]
    assert [rounded_percent(n) for n in (0.634, 0.004, 0.0)] == ["63%", "0.4%", "0%"]
    assert mebibytes(3 * 2**19) == "1.5 MiB"
    assert [elapsed(n) for n in (7.4, 99.0, 600, 9000)] == ["7 s", "99 s", "10 min", "2.5 h"]
    assert [number(n) for n in (1.2345, None)] == ["1.23", ""]
    assert [is_known(n) for n in (1, 0.5, math.nan, None, "1")] == [True, True, *[False] * 3]
