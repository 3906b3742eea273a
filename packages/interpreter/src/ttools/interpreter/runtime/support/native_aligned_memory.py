"""Keeps glibc from fragmenting memory that is allocated with an alignment.

glibc's `posix_memalign` allocates more than requested, and cuts off both ends. The remainders are
put into the thread's cache of small blocks, from which the next small request is served. While a
remainder is cached or in use, the aligned block cannot be merged with it when it is freed, and is
then too short for another request of the original size. A program that allocates and frees one
tensor after another, and keeps a small object for each, therefore always receives new memory, which
is in none of the CPU's caches.

If the thread's cache is full, glibc merges a freed block with its neighbour. Therefore
`native_aligned_memory.c` fills the cache before it frees the remainders. With other allocators,
this has no effect.
"""

from __future__ import annotations

import ctypes

from ttools.core.lazy_values import once
from ttools.interpreter.native import jit
from ttools.interpreter.native.native_module import module_beside

#: Sizes of the remainders in bytes, if memory is aligned to 64 bytes: the smallest, the largest and
#: the step between them; and the largest distance in bytes between a remainder and the memory.
SMALLEST, LARGEST, STEP, FARTHEST = 24, 120, 16, 128
#: The number of blocks of each size to allocate: glibc caches seven, and two may be remainders.
BLOCKS = 9


def join_remainders(start: int, nbytes: int) -> None:
    """Free the remainders next to memory that this thread has just allocated.

    The thread must not allocate other memory in between.

    Args:
        start: Address of the memory.
        nbytes: Size of the memory in bytes.
    """
    job = (ctypes.c_uint64 * 4)(*_functions(), start, start + nbytes)
    _code().function(ctypes.addressof(job), 0)


@once
def _functions() -> tuple[int, int]:
    library = ctypes.CDLL(None)
    malloc, free = (ctypes.cast(f, ctypes.c_void_p) for f in (library.malloc, library.free))
    return malloc.value or 0, free.value or 0


@once
def _code() -> jit.NativeCode:
    return module_beside(__file__, ("give_back",), name="joining memory")
