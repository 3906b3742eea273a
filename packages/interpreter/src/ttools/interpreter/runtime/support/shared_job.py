"""Runs native code on blocks of memory, on several threads if there are many blocks.

The threads are the same ones that run kernels.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from ttools.interpreter.native import jit
from ttools.interpreter.runtime.pool import default_threads, pool, share

#: The number of words of a job, and the offset in bytes of the count of threads that work on it.
#: The count is on a separate cache line.
_JOB_WORDS, _PENDING = 8, 64


def run_job(
    code: jit.NativeCode, blocks: int, words: Sequence[int], *, worthwhile: int
) -> Sequence[int]:
    """Process the blocks of a job with native code, on several threads if that is worthwhile.

    A job is an array of words: the index of the next block, the number of blocks, and `words`.

    Args:
        code: Receives the address of the job, and takes blocks, by atomically incrementing the
            first word, until none is left.
        blocks: Number of blocks of the job.
        words: Further words of the job; at most six.
        worthwhile: Minimum number of blocks per thread; fewer threads are used for less work.

    Returns:
        The contents of the further words after the job.
    """
    job = (ctypes.c_uint64 * (2 * _JOB_WORDS))(0, blocks, *words)
    address = ctypes.addressof(job)
    threads = min(default_threads(), blocks // worthwhile)
    if threads <= 1:
        code.function(address, 0)
    else:
        workers = pool().lease(threads - 1, 0, limit=threads)
        # Passing an arena makes this thread take part. The code does not use it, so any address can
        # be passed.
        try:
            share(workers, code.address, address, address, address + _PENDING, stop=lambda: None)
        finally:
            pool().take_back(workers, keep=max(threads, len(workers)))
    return job[2 : 2 + len(words)]
