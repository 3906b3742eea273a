"""Intervals that hold all values of symbols and of polynomials in them.

Must not know facts beyond the two ends of a symbol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from ttools.sanitizer.sizes.algebra.polynomials import Poly, Symbol, next_power_of_2

#: Both ends included; None is no bound.
Interval: TypeAlias = "tuple[int | None, int | None]"


class Ranges:
    """The interval of each symbol.

    Args:
        box: first and last value of each size.
    """

    def __init__(self, box: Mapping[Symbol, tuple[int, int]]) -> None:
        self.box = dict(box)
        self._ranges: dict[Symbol, Interval] = dict(box)

    def declare(self, symbol: Symbol, low: int | None, high: int | None) -> None:
        self._ranges[symbol] = (low, high)

    def range_of(self, symbol: Symbol) -> Interval:
        known = self._ranges.get(symbol)
        if known is None:
            known = self._ranges[symbol] = self._atom_range(symbol)
        return known

    def range(self, poly: Poly) -> Interval:
        """An interval that holds all values of a polynomial."""
        low: int | None = 0
        high: int | None = 0
        for m, c in poly.terms.items():
            a: int | None = c
            b: int | None = c
            index = 0
            while index < len(m):
                symbol, power = m[index], 1
                while index + power < len(m) and m[index + power] is symbol:
                    power += 1
                a, b = _times((a, b), _power(self.range_of(symbol), power))
                index += power
            low = None if low is None or a is None else low + a
            high = None if high is None or b is None else high + b
            if low is None and high is None:
                break
        return low, high

    def within(self, poly: Poly, low: int, high: int) -> bool:
        """Whether intervals alone show that it is."""
        a, b = self.range(poly)
        return a is not None and b is not None and low <= a and b <= high

    def _atom_range(self, symbol: Symbol) -> Interval:
        kind, args = symbol.kind, symbol.args
        if not args:
            return None, None
        ranges = [self.range(a) for a in args]
        (a, b) = ranges[0]
        if kind == "power_of_2":
            return next_power_of_2(max(a or 0, 0)), None if b is None else next_power_of_2(b)
        c, d = ranges[1]
        if kind == "min":
            low = None if a is None or c is None else min(a, c)
            return low, min((x for x in (b, d) if x is not None), default=None)
        if kind == "max":
            high = None if b is None or d is None else max(b, d)
            return max((x for x in (a, c) if x is not None), default=None), high
        # Quotients are made only where their divisor is shown to be at least 1.
        c, d = max(1, c or 1), None if d is None else max(1, d)
        if kind == "mod":
            high = None if d is None else d - 1
            if a is not None and a >= 0 and b is not None:
                high = b if high is None else min(high, b)
            return 0, high
        low = None if a is None else a // c if a < 0 else (0 if d is None else a // d)
        high = None if b is None else b // c if b >= 0 else (-1 if d is None else b // d)
        return low, high


def _times(x: Interval, y: Interval) -> Interval:
    (a, b), (c, d) = x, y
    if None not in (a, b, c, d):
        products = (a * c, a * d, b * c, b * d)  # type: ignore[operator]
        return min(products), max(products)
    if (a, b) == (0, 0) or (c, d) == (0, 0):
        return 0, 0
    if a is not None and c is not None and a >= 0 and c >= 0:
        return a * c, None if b is None or d is None else b * d
    if b is not None and c is not None and b <= 0 and c >= 0:
        low, high = _times((-b, None if a is None else -a), y)
        return None if high is None else -high, None if low is None else -low
    return None, None


def _power(x: Interval, power: int) -> Interval:
    if power == 1:
        return x
    a, b = x
    if power % 2 == 0 and (a is None or a < 0):
        if b is not None and b <= 0:
            return b**power, None if a is None else a**power
        return 0, None if a is None or b is None else max(a**power, b**power)
    return None if a is None else a**power, None if b is None else b**power
