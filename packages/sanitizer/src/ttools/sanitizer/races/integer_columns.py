"""Fast sorting and searching of integer columns.

A sort by several columns packs them into one 64-bit key if they fit, because NumPy sorts one array
of integers much faster than `np.lexsort` sorts several arrays.
"""

import numpy as np
from numpy.typing import NDArray

from ttools.sanitizer.races.records import Bools, Ints

_LONG_RUN = 4
"""Mean length of ascending runs above which a merge sort is faster than a quicksort."""

_CLOSE = 8
"""Largest ratio of the range of the values to their number for which a lookup table is used."""


def order_by(*columns: NDArray[np.integer]) -> Ints:
    """Return the stable permutation that sorts by the columns; the first column is the main key."""
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
    # Sorting keys that contain their index is faster than np.argsort, and it is stable.
    key <<= index_bits
    key |= np.arange(count)
    # Records arrive as a few ascending runs, which the stable merge sort handles in linear time.
    runs = np.count_nonzero(key[1:] < key[:-1]) + 1
    if runs > 1:
        key.sort(kind="stable" if _LONG_RUN * runs < count else "quicksort")
    key &= (1 << index_bits) - 1
    return key


def changes(*columns: NDArray[np.integer]) -> Bools:
    """Return a mask of the rows that differ from the previous row; True for the first row."""
    fresh = np.zeros(len(columns[0]), np.bool_)
    fresh[:1] = True
    for column in columns:
        fresh[1:] |= column[1:] != column[:-1]
    return fresh


def count_less(ascending: Ints, values: Ints) -> Ints:
    """Return, for each value, how many ascending numbers are less, like `np.searchsorted`.

    If the numbers are dense in their range, a lookup table over the range is used, which is faster
    than a binary search.
    """
    if len(ascending) == 0:
        return np.zeros(len(values), np.int64)
    low, high = int(ascending[0]), int(ascending[-1])
    if high - low > _CLOSE * len(ascending) or len(values) < len(ascending):
        return np.searchsorted(ascending, values)
    # table[i] is the number of numbers that are less than low + i.
    table = np.zeros(high - low + 2, np.int64)
    np.cumsum(np.bincount(ascending - low), out=table[1:])
    return table[np.clip(values - low, 0, high - low + 1)]


def distinct(values: Ints) -> Ints:
    """Return the distinct values in ascending order."""
    if len(values) == 0:
        return values
    low, high = int(values.min()), int(values.max())
    if high - low > _CLOSE * len(values):
        return np.unique(values)
    occurs = np.zeros(high - low + 1, np.bool_)
    occurs[values - low] = True
    return np.flatnonzero(occurs) + low
