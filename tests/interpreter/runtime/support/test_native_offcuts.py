"""Memory that is allocated aligned and freed, over and over, as tensors of torch are."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable

import pytest

from ttools.interpreter.runtime.support.native_offcuts import join_offcuts

#: Little enough to come from the heap, enough for what is free to be joined when it is freed.
NBYTES, ALIGNMENT = 100_000, 64
#: Sizes of the small blocks that are taken while there is such memory.
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
    """Address of memory as torch's tensors have it."""
    pointer = ctypes.c_void_p()
    assert libc.posix_memalign(ctypes.byref(pointer), ALIGNMENT, NBYTES) == 0
    return pointer.value or 0


def places(after: Callable[[int], None], *, calls: int = 40) -> int:
    """In how many places memory lies of a program that keeps a few small blocks each time."""
    found, kept = set(), list[int]()
    for _ in range(calls):
        start = allocate()
        after(start)
        kept += [libc.malloc(size) for size in SIZES]
        libc.free(start)
        found.add(start)
    for each in kept:
        libc.free(each)
    return len(found)


def test_memory_is_as_it_was() -> None:
    start = allocate()
    ctypes.memset(start, 0x5A, NBYTES)
    join_offcuts(start, NBYTES)
    assert ctypes.string_at(start, NBYTES) == b"\x5a" * NBYTES
    libc.free(start)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_memory_is_given_out_again() -> None:
    """Else each call finds what was cut off in use, and goes on to other memory."""
    assert places(lambda start: join_offcuts(start, NBYTES)) <= 3
