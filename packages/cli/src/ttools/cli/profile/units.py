"""Numbers with their units, as every report of the command line has them."""

from __future__ import annotations

import math
from typing import Any

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"), (1e-12, "ps"))


def is_known(value: Any) -> bool:
    """Whether it is a number, and not NaN."""
    return isinstance(value, (int, float)) and not math.isnan(value)


def amount(value: float | None, unit: str = "") -> str:
    """`268M`, `1.05 MB`; empty for nothing known."""
    if value is None or math.isnan(value):
        return ""
    gap = " " if unit else ""
    for factor, prefix in _PREFIXES:
        if value >= factor:
            return f"{value / factor:.3g}{gap}{prefix}{unit}"
    return f"{value:.3g}{gap}{unit}"


def seconds(value: float | None) -> str:
    """`3.14 ms`; empty for nothing known."""
    if value is None or math.isnan(value):
        return ""
    for factor, unit in _TIMES:
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return "0"


def share(value: float | None) -> str:
    """`12.5%`; empty for nothing known."""
    return "" if value is None or math.isnan(value) else f"{value:.1%}"


def number(value: float | None) -> str:
    """Three digits; empty for nothing known."""
    return "" if value is None or math.isnan(value) else f"{value:.3g}"
