"""Tolerances with which an output can be compared with a reference.

`docs/design/accuracy.md` derives which error a tolerance has to allow for each element, and why the
tolerance that `Envelope` returns is the smallest one for elements of the typical size.
"""

from __future__ import annotations

from itertools import pairwise
from math import floor, log10

import numpy as np

from ttools.sanitizer.accuracy.sources import Array

#: A tolerance is this multiple of what the elements need, because other inputs may need more.
_MARGIN = 2.0
#: Elements whose sizes differ by less than a factor of `2 ** (1 / _BINS)` are treated as equal in
#: size.
_BINS = 64
#: A relative tolerance alone is preferred if it is at most this multiple of the relative tolerance
#: in the pair.
_ALONE = 1.25
#: Smallest positive number, whose logarithm is still finite.
_SMALLEST = 5e-324
_STEPS = (1.0, 2.0, 5.0, 10.0)


class Envelope:
    """The error that a tolerance has to allow, as a function of an element's size.

    The tolerance `atol + rtol * size` must be at least the error of each element. Since `rtol` is
    not negative, an element matters only if its error is larger than the errors of all smaller
    elements.
    """

    def __init__(self) -> None:
        self._sizes: Array = np.zeros(1)
        self._errors: Array = np.zeros(1)
        self._total = 0.0
        self._count = 0

    def add(self, sizes: Array, errors: Array) -> None:
        """Add elements.

        Args:
            sizes: Absolute exact values of the elements; finite.
            errors: The errors that the tolerance must allow for them; finite.
        """
        if not sizes.size:
            return
        sizes, errors = sizes.astype(np.float64), errors.astype(np.float64)
        self._total += float(sizes.sum())
        self._count += sizes.size
        self._keep(sizes, errors)

    def unite(self, other: Envelope) -> None:
        """Add the elements of another envelope."""
        self._total += other._total
        self._count += other._count
        self._keep(other._sizes, other._errors)

    def tolerance(self) -> tuple[float, float]:
        """Return the relative and the absolute tolerance that the elements need.

        Of all sufficient pairs, the result is the one that allows the smallest error for an element
        of the mean size. If a relative tolerance alone allows little more, it is returned instead,
        with an absolute tolerance of zero.
        """
        mean = self._total / max(self._count, 1)
        hull = self._hull()
        mean_of_bins = mean * 2.0 ** (-1 / _BINS)  # a bin counts as its smallest element
        for (x, y), (next_x, next_y) in pairwise(hull):
            if next_x >= mean_of_bins:
                slope = (next_y - y) / (next_x - x)
                alone = hull[1][1] / hull[1][0]  # no element has a larger relative error
                if hull[0][1] == 0 and alone <= _ALONE * slope:
                    return alone, 0.0
                return slope, max(y - slope * x, 0.0)
        return 0.0, hull[-1][1]

    def suggestion(self) -> tuple[float, float]:
        """Return a relative and an absolute tolerance with a margin, rounded up to 1, 2 or 5."""
        relative, absolute = self.tolerance()
        return rounded_up(_MARGIN * relative), rounded_up(_MARGIN * absolute)

    def _keep(self, sizes: Array, errors: Array) -> None:
        """Add elements, and keep only those whose errors exceed those of all smaller elements."""
        sizes = np.concatenate([self._sizes, sizes])
        errors = np.concatenate([self._errors, errors])
        bins = np.floor(_BINS * np.log2(np.maximum(sizes, _SMALLEST)))
        order = np.argsort(bins, kind="stable")
        starts = np.flatnonzero(np.diff(bins[order], prepend=np.nan) != 0)
        sizes = np.minimum.reduceat(sizes[order], starts)
        errors = np.maximum.reduceat(errors[order], starts)
        before = np.maximum.accumulate(np.concatenate([[-1.0], errors[:-1]]))
        matters = errors > before
        self._sizes, self._errors = sizes[matters], errors[matters]

    def _hull(self) -> list[tuple[float, float]]:
        """Return the corners of the smallest concave function that is nowhere below the errors."""
        hull: list[tuple[float, float]] = []
        for x, y in zip(self._sizes.tolist(), self._errors.tolist(), strict=True):
            while len(hull) > 1 and _is_below(hull[-2], hull[-1], (x, y)):
                hull.pop()
            hull.append((x, y))
        return hull


def _is_below(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Return whether the second point is on or below the line from the first to the third."""
    return (b[1] - a[1]) * (c[0] - a[0]) <= (c[1] - a[1]) * (b[0] - a[0])


def rounded_up(value: float) -> float:
    """Return the smallest number that is at least `value` and is 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 0.0
    power = floor(log10(value))
    step = next((s for s in _STEPS if s * 10.0**power >= value * (1 - 1e-12)), _STEPS[-1])
    return float(f"{step:g}e{power}")
