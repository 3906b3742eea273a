"""Facts about the elements of a value that are known without a run: interval and exactness.

A float is `exact` if it is a multiple of 2**grain within its interval, and if every order of the
operations that computed it gives the same bits. For example, sums of 16 integers between -8 and 8
are exact in float16: all partial sums are integers below 2048. The generator uses only exact values
where the order of operations, contraction or approximation could change the result. Therefore each
kernel has exactly one correct result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ttools.fuzz.elements import Element


@dataclass(frozen=True)
class Fact:
    """Facts about a value.

    Attributes:
        low: Lower bound of all elements except NaNs.
        high: Upper bound of all elements except NaNs.
        grain: Elements of an exact float are multiples of 2**grain.
        exact: True if the value is exact, see the module's description; integers always are.
        product: True if the value may be a rounded product. An addition of the value could then be
            contracted to a fused multiply-add, which does not round the product.
        approximate: True if the value is known only up to some units in the last place.
        nan: True if an element may be NaN.
        ulps: Error bound of an approximate value, in units in the last place.
        signless: True if the sign of a zero may depend on the order of operations.
    """

    low: float = -math.inf
    high: float = math.inf
    grain: int = 0
    exact: bool = True
    product: bool = False
    approximate: bool = False
    nan: bool = False
    ulps: int = 0
    signless: bool = False

    @property
    def size(self) -> float:
        """Return the upper bound of the elements' magnitude."""
        return max(abs(self.low), abs(self.high))

    def implies(self, other: Fact) -> bool:
        """Return whether a value with these facts may be used where `other` is required."""
        if (
            self.approximate > other.approximate
            or self.nan > other.nan
            or self.signless > other.signless
        ):
            return False
        if self.product > other.product or self.exact < other.exact:
            return False
        return self.low >= other.low and self.high <= other.high and self.grain >= other.grain


def whole(element: Element) -> Fact:
    """Return the facts of an arbitrary value of an integer type."""
    if element.kind == "bool":
        return Fact(0, 1)
    return Fact(element.low, element.high)


WILD = Fact(exact=False, nan=True)


def within(low: float, high: float, grain: int = 0) -> Fact:
    """Return the facts of an exact value in an interval."""
    return Fact(low, high, grain)


def fits(fact: Fact, element: Element) -> bool:
    """Return whether a float type represents all exact values with this interval and grain."""
    if not fact.exact or not math.isfinite(fact.size):
        return False
    return fact.size < 2.0 ** (element.digits + fact.grain) and fact.grain > -14


def limited(fact: Fact, element: Element) -> Fact:
    """Return the facts of a result after its type's overflow or rounding."""
    if element.kind == "bool":
        return Fact(0, 1)
    if element.is_integer:
        inside = element.low <= fact.low and fact.high <= element.high
        return Fact(fact.low, fact.high) if inside else whole(element)
    if fact.exact and fits(fact, element):
        return replace(fact, product=False)
    return replace(WILD, product=fact.product)


def either(a: Fact, b: Fact) -> Fact:
    """Return facts that hold for a value that may be either of two values."""
    return Fact(
        min(a.low, b.low),
        max(a.high, b.high),
        min(a.grain, b.grain),
        a.exact and b.exact,
        a.product or b.product,
        a.approximate or b.approximate,
        a.nan or b.nan,
        max(a.ulps, b.ulps),
        a.signless or b.signless,
    )


def added(a: Fact, b: Fact) -> Fact:
    """Return the facts of a sum, before it is limited to its type."""
    grain = min(a.grain, b.grain)
    return Fact(a.low + b.low, a.high + b.high, grain, a.exact and b.exact)


def negated(a: Fact) -> Fact:
    """Return the facts of the negated value."""
    return replace(a, low=-a.high, high=-a.low)


def multiplied(a: Fact, b: Fact) -> Fact:
    """Return the facts of a product, before it is limited to its type."""
    exact = a.exact and b.exact and math.isfinite(a.size) and math.isfinite(b.size)
    if not exact:
        return replace(WILD, product=True)
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return Fact(min(corners), max(corners), a.grain + b.grain, product=True)


def repeated(a: Fact, count: int) -> Fact:
    """Return the facts of a sum of up to `count` values that have the facts `a`."""
    return replace(a, low=min(a.low * count, a.low), high=max(a.high * count, a.high))
