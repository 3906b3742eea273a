"""An oracle of float formats that shares neither code nor method with the lowering.

It gets all values of a format from ml_dtypes, and rounds by a search in their sorted list.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from vector_jit import TYPES

Array = np.ndarray[Any, Any]

FP8 = ("f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ", "f8E4M3B11FNUZ")
SHORT = (*FP8, "f16", "bf16")


def all_values(kind: str) -> Array:
    """Return the values of all bit patterns of a format of 8 or 16 bits."""
    size = np.dtype(TYPES[kind]).itemsize
    return np.arange(1 << (8 * size), dtype=f"u{size}").view(TYPES[kind])


@cache
def _magnitudes(kind: str) -> tuple[Array, Array]:
    """Return the finite magnitudes of a format in ascending order, and their bit patterns."""
    patterns = all_values(kind)
    values = patterns.astype(np.float64)
    keep = np.isfinite(values) & ~np.signbit(values)
    order = np.argsort(values[keep], kind="stable")
    return values[keep][order], patterns[keep][order].view(f"u{patterns.itemsize}")


def nearest(x: Array, kind: str) -> Array:
    """Round f64 to the nearest value of a format, ties to even bits; fp8 saturates."""
    values, patterns = _magnitudes(kind)
    magnitude = np.abs(x)
    above = np.clip(np.searchsorted(values, magnitude), 1, len(values) - 1)
    low, high = values[above - 1], values[above]
    with np.errstate(invalid="ignore"):
        down, up = magnitude - low, high - magnitude
    even = patterns[above - 1] % 2 == 0
    result = np.where((down < up) | ((down == up) & even), low, high)
    if kind not in FP8:
        # Values that exceed the largest by half a unit or more round to infinity.
        half_unit = (values[-1] - values[-2]) / 2
        result = np.where(magnitude >= values[-1] + half_unit, np.inf, result)
    result = np.where(np.isnan(x), np.nan, result)
    return np.copysign(result, x)


def toward_zero(x: Array, kind: str) -> Array:
    """Truncate f64 to a format; finite values stay finite, and infinities if the format has any."""
    values, _ = _magnitudes(kind)
    magnitude = np.abs(x)
    index = np.searchsorted(values, magnitude, side="right") - 1
    result = values[np.maximum(index, 0)]
    if kind in ("f16", "bf16", "f8E5M2"):
        result = np.where(np.isinf(x), np.inf, result)
    result = np.where(np.isnan(x), np.nan, result)
    return np.copysign(result, x)


def boundaries(kind: str, source: str) -> Array:
    """Return values of `source` at, below and above each value and midpoint of `kind`."""
    values, _ = _magnitudes(kind)
    step = values[-1] - values[-2]
    points = np.concatenate(
        [values, (values[:-1] + values[1:]) / 2, values[-1] + step * np.array([0.5, 1])]
    )
    points = points.astype(TYPES[source])
    if source in ("f32", "f64"):
        infinity = points.dtype.type(np.inf)
        points = np.concatenate(
            [points, np.nextafter(points, infinity), np.nextafter(points, -infinity)]
        )
    special = np.array([np.nan, np.inf, 0.0, 1e30, 1e-30], TYPES[source])
    points = np.concatenate([points, special])
    return np.concatenate([points, -points])


def assert_same_floats(actual: Array, expected: Array, *inputs: Array) -> None:
    """Assert equal values and signs of zeros; all NaNs are equal."""
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    wrong = ~((a == e) | (np.isnan(a) & np.isnan(e)))
    wrong |= (a == 0) & (np.signbit(a) != np.signbit(e))
    where = np.flatnonzero(wrong)[:5]
    detail = [(*(x.ravel()[i] for x in inputs), a.ravel()[i], e.ravel()[i]) for i in where]
    assert not wrong.any(), f"{wrong.sum()} differ: inputs, actual, expected {detail}"


def flushed(values: np.ndarray) -> np.ndarray:
    """Replace denormals of f32 by zeros with the same sign."""
    return np.where(np.abs(values) < 2.0**-126, np.copysign(0.0, values), values)
