"""Formats numbers for reports: times, amounts with SI prefixes, shares, sizes of files.

All reports use these functions, so that a figure looks the same on the console, in pages and in
notebooks. Values have three significant digits by default; microseconds are `us`, which every
terminal and encoding can show. Unknown values (None and NaN) become empty strings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"), (1e-12, "ps"))


def is_known(value: Any) -> bool:
    """Return whether a value is a number other than NaN."""
    return isinstance(value, (int, float)) and not math.isnan(value)


def seconds(value: float | None, digits: int = 3) -> str:
    """Return a time with a suitable unit, such as `3.14 ms`."""
    if value is None or math.isnan(value):
        return ""
    if abs(value) < _TIMES[-1][0]:
        return "0"
    number_text, unit = _scaled(value, _TIMES, digits)
    return f"{number_text} {unit}"


def seconds_interval(low: float, high: float) -> str:
    """Return an interval of times, such as `5.19 to 22.5 us` or `700 ns to 1.5 us`."""
    begin, end = seconds(low), seconds(high)
    begin = begin.removesuffix(f" {end.rpartition(' ')[2]}")
    return f"{begin} to {end}"


def elapsed(value: float) -> str:
    """Return a waiting time, rounded for human readers, such as `12 min`."""
    if value < 100:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 6000 else f"{value / 3600:.1f} h"


def amount(value: float | None, unit: str = "") -> str:
    """Return a number with an SI prefix, such as `268M` or, with a unit, `1.05 MB`."""
    if value is None or math.isnan(value):
        return ""
    number_text, prefix = _scaled(value, _PREFIXES, 3)
    return f"{number_text}{' ' if unit else ''}{prefix}{unit}"


def mebibytes(size: float) -> str:
    """Return the size of a file or a cache, such as `1,204.5 MiB`."""
    return f"{size / 2**20:,.1f} MiB"


def percent(value: float | None) -> str:
    """Return a share in the form for columns, with one decimal: `12.5%`."""
    return "" if value is None or math.isnan(value) else f"{value:.1%}"


def rounded_percent(value: float) -> str:
    """Return a share in the form for sentences, such as `63%`, or `0.4%` if it is small."""
    return f"{value:.0%}" if value >= 0.095 or not value else f"{value:.1%}"


def number(value: float | None) -> str:
    """Return a number with three significant digits."""
    return "" if value is None or math.isnan(value) else f"{value:.3g}"


def _scaled(value: float, units: Sequence[tuple[float, str]], digits: int) -> tuple[str, str]:
    """Return a number in the largest unit in which it is at least 1, and the unit."""
    at = next((i for i, (factor, _) in enumerate(units) if abs(value) >= factor), len(units) - 1)
    factor, unit = units[at]
    text = f"{value / factor:.{digits}g}"
    if at and abs(float(text)) >= 1000:  # 999.9 us is 1 ms
        factor, unit = units[at - 1]
        text = f"{value / factor:.{digits}g}"
    return (f"{value / factor:,.0f}" if "e+" in text else text), unit
