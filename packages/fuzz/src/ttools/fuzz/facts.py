"""What is known of a value's elements before anything runs: an interval, and how exact it is.

A float is `exact` if it is a multiple of 2**grain within the interval and if every order of the
operations that made it gives the same bits. The generator adds up, multiplies into sums and
compares with approximations only what is exact, so that its kernels have one right answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ttools.fuzz.elements import Element


@dataclass(frozen=True)
class Fact:
    """What is known of a value.

    Attributes:
        low: no element is less, NaNs apart.
        high: no element is greater.
        grain: elements of an exact float are multiples of 2**grain.
        exact: see above; integers always are.
        product: it may be a rounded product, which an addition may contract with.
        approximate: known up to some units in the last place.
        nan: an element may be a NaN.
        ulps: how far an approximate value may be off.
        signless: the sign of a zero may depend on the order of operations.
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
        """No element's magnitude is greater."""
        return max(abs(self.low), abs(self.high))

    def implies(self, other: Fact) -> bool:
        """Whether a value known like this may be used where `other` is required."""
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
    """Any value of an integer type."""
    if element.kind == "bool":
        return Fact(0, 1)
    return Fact(element.low, element.high)


WILD = Fact(exact=False, nan=True)


def within(low: float, high: float, grain: int = 0) -> Fact:
    """An exact value."""
    return Fact(low, high, grain)


def fits(fact: Fact, element: Element) -> bool:
    """Whether an exact float of the type can have this interval and grain."""
    if not fact.exact or not math.isfinite(fact.size):
        return False
    return fact.size < 2.0 ** (element.digits + fact.grain) and fact.grain > -14


def limited(fact: Fact, element: Element) -> Fact:
    """The fact of a result of the type: what does not fit has wrapped, or was rounded."""
    if element.kind == "bool":
        return Fact(0, 1)
    if element.is_integer:
        inside = element.low <= fact.low and fact.high <= element.high
        return Fact(fact.low, fact.high) if inside else whole(element)
    if fact.exact and fits(fact, element):
        return replace(fact, product=False)
    return replace(WILD, product=fact.product)


def either(a: Fact, b: Fact) -> Fact:
    """A value that is one or the other."""
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
    """A sum, before it is limited to its type."""
    grain = min(a.grain, b.grain)
    return Fact(a.low + b.low, a.high + b.high, grain, a.exact and b.exact)


def negated(a: Fact) -> Fact:
    """The negative."""
    return replace(a, low=-a.high, high=-a.low)


def multiplied(a: Fact, b: Fact) -> Fact:
    """A product, before it is limited to its type."""
    exact = a.exact and b.exact and math.isfinite(a.size) and math.isfinite(b.size)
    if not exact:
        return replace(WILD, product=True)
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return Fact(min(corners), max(corners), a.grain + b.grain, product=True)


def repeated(a: Fact, count: int) -> Fact:
    """A sum of up to `count` such values."""
    return replace(a, low=min(a.low * count, a.low), high=max(a.high * count, a.high))
