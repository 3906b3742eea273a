"""Memory that stays mapped until the process ends, for data that native code reads at that time.

Signal handlers and exit handlers may run after Python has freed its objects, or when a kernel has
corrupted the heap. The data that they read is therefore in separate anonymous mappings, which are
never unmapped. In addition, strings are read-only, so that a stray store terminates the process
instead of changing a string.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from functools import lru_cache
from typing import Any

_BLOCK_BYTES = 64 * 1024
_PROTECTED, _WRITABLE = mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE


class _Texts:
    """The strings that were stored, and the block in which the next one is stored."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.addresses: dict[bytes, int] = {}
        self.next, self.end = 0, 0

    def store(self, text: bytes) -> int:
        """Store a string, followed by a zero byte, and return its address.

        Equal strings are stored once.
        """
        with self.lock:
            address = self.addresses.get(text)
            if address is None:
                address = self.addresses[text] = self._written(text)
            return address

    def _written(self, text: bytes) -> int:
        size = len(text) + 1
        if self.end - self.next < size:
            block_bytes = -(-size // _BLOCK_BYTES) * _BLOCK_BYTES
            self.next = immortal_memory(block_bytes)
            self.end = self.next + block_bytes
        address = self.next
        first = address - address % mmap.PAGESIZE
        length = address + size - first
        _protect(first, length, _WRITABLE)
        ctypes.memmove(address, text, len(text))
        _protect(first, length, _PROTECTED)
        self.next += size
        return address


_texts = _Texts()


def immortal_text(text: str | bytes) -> int:
    """Return the address of a zero-terminated copy of `text` that is never freed."""
    return _texts.store(text.encode(errors="surrogateescape") if isinstance(text, str) else text)


def immortal_memory(size: int) -> int:
    """Return the address of `size` zeroed, page-aligned, writable bytes that are never freed.

    Raises:
        MemoryError: The system has no memory left.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address = _c().mmap(None, size, _WRITABLE, flags, -1, 0)
    if address is None or address == ctypes.c_void_p(-1).value:
        raise MemoryError(f"the system does not map {size:,} bytes")
    return int(address)


def _protect(address: int, size: int, protection: int) -> None:
    if _c().mprotect(address, size, protection):
        raise MemoryError(f"the protection of {size:,} bytes cannot be changed")


@lru_cache(maxsize=1)
def _c() -> Any:
    c = ctypes.CDLL(None)
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    c.mmap.argtypes = [pointer, size, number, number, number, ctypes.c_long]
    c.mmap.restype = pointer
    c.mprotect.argtypes = [pointer, size, number]
    return c


# Hold the lock during a fork. Otherwise, another thread might hold the lock at that moment. This
# thread does not exist in the child, so the lock would never be released there.
os.register_at_fork(
    before=_texts.lock.acquire,
    after_in_parent=_texts.lock.release,
    after_in_child=_texts.lock.release,
)
