"""Arrays of the members of ranges that differ in length."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def ranges(first: NDArray[Any] | int, length: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the members of all ranges `[first, first + length)`, and each one's range index."""
    owner = np.repeat(np.arange(len(length)), length)
    position = np.arange(len(owner)) - np.repeat(np.cumsum(length) - length, length)
    return position + (first if isinstance(first, int) else first[owner]), owner
