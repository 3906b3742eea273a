"""Fills memory with a word, on several threads where there is much of it: `native_fill.ll`.

The threads are those that run kernels. Must not know what the memory is for.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

from ttools.core.once import once
from ttools.interpreter.native import jit
from ttools.interpreter.native.native_module import module_text, native_module
from ttools.interpreter.runtime.pool import default_threads, pool, share

_BLOCK_WORDS = 1 << 13
#: Blocks for each thread at least, else fewer threads share the work.
_WORTHWHILE_BLOCKS = 8
#: A job and, on another cache line, how many threads are at work.
_JOB_BYTES, _PENDING = 128, 64


def fill_words(address: int, words: int, word: int) -> None:
    """Writes a word over and over.

    Args:
        address: of the first, a multiple of 8.
        words: how many.
        word: 64 bits, unsigned.
    """
    blocks = -(-words // _BLOCK_WORDS)
    job = (ctypes.c_uint64 * (_JOB_BYTES // 8))(0, blocks, words, address, word)
    threads = min(default_threads(), blocks // _WORTHWHILE_BLOCKS)
    if threads <= 1:
        _code().function(ctypes.addressof(job), 0)
    else:
        _share(ctypes.addressof(job), threads)


def _share(job: int, threads: int) -> None:
    workers = pool().lease(threads - 1, 0, limit=threads)
    # This thread takes part: the address of any memory in the place of an arena says so.
    try:
        share(workers, _code().address, job, job, job + _PENDING, stop=lambda: None)
    finally:
        pool().take_back(workers, keep=max(threads, len(workers)))


@once
def _code() -> jit.NativeCode:
    text = module_text(Path(__file__).with_name("native_fill.ll"), {"BLOCK_WORDS": _BLOCK_WORDS})
    return native_module(text, ("fill",), name="filling memory", opt=2)
