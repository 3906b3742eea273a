"""Copies of memory by address, which allow a launch to be repeated from the same state."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


def memory(start: int, end: int) -> Bytes:
    """Return a view of the memory between two addresses, which the caller must keep allocated."""
    raw_bytes = (ctypes.c_uint8 * (end - start)).from_address(start)
    # This is several times as fast as `np.ctypeslib.as_array`, which creates work for the garbage
    # collector.
    return np.frombuffer(memoryview(raw_bytes), np.uint8)


class Snapshot:
    """The contents of some ranges of memory at one moment.

    Args:
        ranges: First address and end address of each range.
    """

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._copies = [(start, end, memory(start, end).copy()) for start, end in ranges]

    @property
    def size(self) -> int:
        """The total size of the copies in bytes."""
        return sum(end - start for start, end, _ in self._copies)

    def restore(self) -> None:
        for start, end, copy in self._copies:
            memory(start, end)[:] = copy
