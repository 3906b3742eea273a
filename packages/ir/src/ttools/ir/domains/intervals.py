"""The domain of intervals: the smallest and the largest value that an integer may have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ttools.ir.dialects.integers import Integers, UnknownError, truncated_quotient

Interval: TypeAlias = "tuple[int, int]"
#: Largest shift that is evaluated. The result of a left shift by more bits is taken to be any
#: 128-bit integer. A right shift by more bits is evaluated as a right shift by this number of bits.
_MOST_SHIFTED = 64


def full(width: int) -> Interval:
    """Return the interval of a signed integer type of `width` bits; an `i1` is 0 or 1."""
    return (0, 1) if width == 1 else (-(1 << (width - 1)), (1 << (width - 1)) - 1)


def hull(intervals: Sequence[Interval]) -> Interval:
    """Return the smallest interval that contains all of the given ones."""
    return min(low for low, _ in intervals), max(high for _, high in intervals)


def bits_for(interval: Interval) -> int:
    """Return the smallest of the widths 8, 16 and 32 that can represent an interval, else 64."""
    for width in (8, 16, 32):
        if holds(full(width), interval):
            return width
    return 64


def holds(outer: Interval, inner: Interval) -> bool:
    """Return whether `outer` contains all numbers of `inner`."""
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _corners(compute: Callable[[int, int], int], a: Interval, b: Interval) -> Interval:
    """Return the interval of a function that is monotone in each operand, from its four corners."""
    values = [compute(x, y) for x in a for y in b]
    return min(values), max(values)


class IntervalDomain(Integers[Interval]):
    """The domain of intervals.

    Args:
        grid: Number of programs along each axis; None if unknown.
    """

    def __init__(self, grid: Sequence[int] | None = None) -> None:
        self._grid = grid

    def constant(self, number: int) -> Interval:
        return number, number

    def elements(self, numbers: Sequence[int]) -> Interval:
        return min(numbers), max(numbers)

    def coordinate(self, axis: int, extent: int) -> Interval:
        return 0, extent - 1

    def program(self, axis: int) -> Interval:
        return 0, max(0, self.programs(axis)[1] - 1)

    def programs(self, axis: int) -> Interval:
        if self._grid is None:
            raise UnknownError
        count = self._grid[axis] if axis < len(self._grid) else 1
        return count, count

    def add(self, a: Interval, b: Interval) -> Interval:
        return a[0] + b[0], a[1] + b[1]

    def subtract(self, a: Interval, b: Interval) -> Interval:
        return a[0] - b[1], a[1] - b[0]

    def multiply(self, a: Interval, b: Interval) -> Interval:
        return _corners(lambda x, y: x * y, a, b)

    def shift_left(self, a: Interval, by: Interval) -> Interval:
        if by[0] < 0 or by[1] > _MOST_SHIFTED:
            return full(2 * _MOST_SHIFTED)
        return _corners(lambda x, n: x << n, a, by)

    def shift_right(self, a: Interval, by: Interval) -> Interval:
        if by[0] < 0:
            raise UnknownError
        return _corners(lambda x, n: x >> min(n, _MOST_SHIFTED), a, by)

    def quotient(self, a: Interval, b: Interval) -> Interval:
        return self._divided(truncated_quotient, a, b)

    def floor_quotient(self, a: Interval, b: Interval) -> Interval:
        return self._divided(lambda x, y: x // y, a, b)

    def ceiling_quotient(self, a: Interval, b: Interval) -> Interval:
        return self._divided(lambda x, y: -(-x // y), a, b)

    def _divided(self, rounded: Callable[[int, int], int], a: Interval, b: Interval) -> Interval:
        if b[0] <= 0 <= b[1]:
            raise UnknownError
        low, high = _corners(rounded, a, b)
        # The corners do not cover a dividend of 0, for which the quotient is 0.
        return (min(low, 0), max(high, 0)) if a[0] <= 0 <= a[1] else (low, high)

    def remainder(self, a: Interval, b: Interval) -> Interval:
        if b[0] <= 0 <= b[1]:
            raise UnknownError
        most = max(abs(b[0]), abs(b[1])) - 1
        return (0 if a[0] >= 0 else max(a[0], -most)), (0 if a[1] <= 0 else min(a[1], most))

    def least(self, a: Interval, b: Interval) -> Interval:
        return min(a[0], b[0]), min(a[1], b[1])

    def greatest(self, a: Interval, b: Interval) -> Interval:
        return max(a[0], b[0]), max(a[1], b[1])

    def bits_and(self, a: Interval, b: Interval) -> Interval:
        highs = [high for low, high in (a, b) if low >= 0]
        if not highs:
            raise UnknownError
        return 0, min(highs)

    def bits_or(self, a: Interval, b: Interval) -> Interval:
        if a[0] < 0 or b[0] < 0:
            raise UnknownError
        return 0, (1 << max(a[1], b[1]).bit_length()) - 1

    def bits_xor(self, a: Interval, b: Interval) -> Interval:
        return self.bits_or(a, b)

    def choose(self, condition: Interval, a: Interval, b: Interval) -> Interval:
        return hull((a, b))

    def truth(self) -> Interval:
        return 0, 1

    def unsigned(self, a: Interval, bits: int) -> Interval:
        everything = (0, (1 << bits) - 1)
        return a if holds(everything, a) else everything

    def signed(self, a: Interval, bits: int) -> Interval:
        return a if holds(full(bits), a) else full(bits)
