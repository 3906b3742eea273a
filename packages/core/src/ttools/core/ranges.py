"""Expands ranges of different lengths to arrays of their members."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def ranges(first: NDArray[Any] | int, length: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return all members of the ranges `[first, first + length)`, and the range index of each.

    For example, if `first` is [5, 20] and `length` is [2, 3], the members are [5, 6, 20, 21, 22],
    and their range indices are [0, 0, 1, 1, 1].
    """
    owner = np.repeat(np.arange(len(length)), length)
    position = np.arange(len(owner)) - np.repeat(np.cumsum(length) - length, length)
    return position + (first if isinstance(first, int) else first[owner]), owner
