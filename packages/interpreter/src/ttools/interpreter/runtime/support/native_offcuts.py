"""Has the C library join what it cut off a block of memory to it again: `native_offcuts.c`.

glibc's `posix_memalign` takes more than was asked for, and cuts off both ends. What it cuts off
goes into the thread's cache of small blocks, from where the next small request takes it. As long as
it is there or in use, the block is too short, once it is freed, for another request as large as the
first: a program that allocates and frees one tensor after another, and keeps something small of
each, goes through ever new memory, which is in no cache of the CPU. What is given back while the
thread's cache is full is joined to its neighbour, and that is what is brought about here.

With other allocators it does nothing of use, and no harm. Must not know what the memory is for.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

from ttools.core.once import once
from ttools.interpreter.native import jit
from ttools.interpreter.native.native_module import module_text, native_module

#: The sizes of small blocks that are cut off where memory is aligned to 64 bytes, and the farthest
#: that they begin from it.
SMALLEST, LARGEST, STEP, FARTHEST = 24, 120, 16, 128
#: glibc caches seven of a size; two may have been cut off.
BLOCKS = 9


def join_offcuts(start: int, nbytes: int) -> None:
    """Called by the thread that has just allocated memory, before it allocates more.

    Args:
        start: address of the memory.
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
    text = module_text(Path(__file__).with_name("native_offcuts.ll"))
    return native_module(text, ("give_back",), name="joining memory", opt=2)
