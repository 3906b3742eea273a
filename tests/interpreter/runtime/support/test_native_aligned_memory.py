"""Tests of memory that is repeatedly allocated with alignment and freed, like torch's tensors.

Aligned allocation splits off small blocks. If the program keeps these, the allocator cannot reuse
the memory, so native code joins the blocks with their neighbour.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable

import pytest

from ttools.interpreter.runtime.support.native_aligned_memory import join_remainders

#: Size in bytes: small enough for the heap, and large enough that freeing it merges free blocks.
NBYTES, ALIGNMENT = 100_000, 64
#: Sizes of the small blocks that are allocated while the large one exists.
SIZES = range(24, 121, 16)

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.posix_memalign.argtypes = [
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_size_t,
    ctypes.c_size_t,
]


def allocate() -> int:
    """Allocate memory like torch, and return its address."""
    pointer = ctypes.c_void_p()
    assert libc.posix_memalign(ctypes.byref(pointer), ALIGNMENT, NBYTES) == 0
    return pointer.value or 0


def distinct_addresses(after: Callable[[int], None], *, calls: int = 40) -> int:
    """Return the number of addresses of repeated allocations, with small blocks in between.

    Args:
        after: Function that is called with the address of each allocation.
        calls: Number of allocations.
    """
    addresses, kept = set(), list[int]()
    for _ in range(calls):
        start = allocate()
        after(start)
        kept += [libc.malloc(size) for size in SIZES]
        libc.free(start)
        addresses.add(start)
    for block in kept:
        libc.free(block)
    return len(addresses)


def test_memory_keeps_its_contents() -> None:
    start = allocate()
    ctypes.memset(start, 0x5A, NBYTES)
    join_remainders(start, NBYTES)
    assert ctypes.string_at(start, NBYTES) == b"\x5a" * NBYTES
    libc.free(start)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs the allocator of glibc")
def test_memory_is_reused() -> None:
    """Check that allocations reuse addresses; otherwise small blocks take what was split off."""
    assert distinct_addresses(lambda start: join_remainders(start, NBYTES)) <= 3
