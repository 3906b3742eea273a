"""Scratch memory of a thread: aligned, kept between launches, grown when a kernel needs more."""

from __future__ import annotations

import ctypes
import mmap

_GRANULE = 64 * 1024
_HUGE = 2 * 1024 * 1024


class Arena:
    """Page-aligned anonymous memory; `address` is valid for `size` bytes until the next growth."""

    __slots__ = ("_anchor", "_memory", "address", "size")

    def __init__(self) -> None:
        self.address = 0
        self.size = 0
        self._memory: mmap.mmap | None = None
        self._anchor: ctypes.c_char | None = None

    def reserve(self, size: int) -> int:
        """Makes room for `size` bytes and returns the address; contents are not kept."""
        if size > self.size or not self.address:
            self._grow(size)
        return self.address

    def _grow(self, size: int) -> None:
        size = -(-max(size, _GRANULE, 2 * self.size if self.size < _HUGE else 0) // _GRANULE)
        size *= _GRANULE
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if size >= _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        # The anchor goes first: a map with views cannot be closed.
        self._anchor = None
        self._anchor = ctypes.c_char.from_buffer(memory)
        self._memory = memory
        self.address = ctypes.addressof(self._anchor)
        self.size = size
