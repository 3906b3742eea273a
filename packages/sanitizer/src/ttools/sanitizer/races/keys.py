"""Sorting by several integer columns at once, quickly: the columns are packed into one word."""

import numpy as np
from numpy.typing import NDArray

from ttools.sanitizer.races.records import Bools, Ints

_LONG_RUN = 4
"""Mean length of ascending runs from which on merging them is faster than sorting anew."""


_CLOSE = 8
"""So many times as many numbers as there are may lie between the lowest and the highest."""


def order_by(*columns: NDArray[np.integer]) -> Ints:
    """The permutation that sorts by the columns, the first one major; ties keep their order."""
    count = len(columns[0])
    if count == 0:
        return np.empty(0, np.int64)
    lows = [int(column.min()) for column in columns]
    bits = [
        (int(column.max()) - low).bit_length() for column, low in zip(columns, lows, strict=True)
    ]
    index_bits = (count - 1).bit_length()
    if sum(bits) > 63:
        return np.lexsort(columns[::-1])
    key = np.zeros(count, np.int64)
    for column, low, width in zip(columns, lows, bits, strict=True):
        key <<= width
        key |= column.astype(np.int64) - low
    if sum(bits) + index_bits > 63:
        return np.argsort(key, kind="stable")
    # Sorting words that carry their index is faster than np.argsort, and stable.
    key <<= index_bits
    key |= np.arange(count)
    # Records come in ascending runs, which a merging sort takes as they are.
    runs = np.count_nonzero(key[1:] < key[:-1]) + 1
    if runs > 1:
        key.sort(kind="stable" if _LONG_RUN * runs < count else "quicksort")
    key &= (1 << index_bits) - 1
    return key


def changes(*columns: NDArray[np.integer]) -> Bools:
    """Where a row differs from the row before it; true for the first."""
    fresh = np.zeros(len(columns[0]), np.bool_)
    fresh[:1] = True
    for column in columns:
        fresh[1:] |= column[1:] != column[:-1]
    return fresh


def ranges(first: Ints, length: Ints) -> tuple[Ints, Ints]:
    """Every member of the ranges `[first, first + length)`, and which range it is in."""
    owner = np.repeat(np.arange(len(first)), length)
    offset = np.arange(len(owner)) - np.repeat(np.cumsum(length) - length, length)
    return first[owner] + offset, owner


def count_less(ascending: Ints, values: Ints) -> Ints:
    """How many of the ascending numbers are less than each value: `np.searchsorted`.

    Where the numbers lie close together a table of all that lie between them is faster.
    """
    if len(ascending) == 0:
        return np.zeros(len(values), np.int64)
    low, high = int(ascending[0]), int(ascending[-1])
    if high - low > _CLOSE * len(ascending) or len(values) < len(ascending):
        return np.searchsorted(ascending, values)
    # How many are less than each number up to one more than the highest.
    table = np.zeros(high - low + 2, np.int64)
    np.cumsum(np.bincount(ascending - low), out=table[1:])
    return table[np.clip(values - low, 0, high - low + 1)]


def distinct(values: Ints) -> Ints:
    """The distinct values in ascending order."""
    if len(values) == 0:
        return values
    low, high = int(values.min()), int(values.max())
    if high - low > _CLOSE * len(values):
        return np.unique(values)
    seen = np.zeros(high - low + 1, np.bool_)
    seen[values - low] = True
    return np.flatnonzero(seen) + low
