"""Runs native code on blocks of memory, on several threads where there is much of it.

The threads are those that run kernels.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from ttools.interpreter.native import jit
from ttools.interpreter.runtime.pool import default_threads, pool, share

#: Words of a job, and behind them, on another cache line, how many threads are at work.
_JOB_WORDS, _PENDING = 8, 64


def run_job(
    code: jit.NativeCode, blocks: int, words: Sequence[int], *, worthwhile: int
) -> Sequence[int]:
    """Process the blocks of a job with native code, on several threads if that pays off.

    The code gets the address of the next block's index, the number of blocks, and the words.

    Args:
        code: Takes blocks, by atomically incrementing the first word, until none are left.
        blocks: Number of blocks of the job.
        words: Further words of the job; at most six.
        worthwhile: Minimum number of blocks per thread; fewer threads are used for less work.

    Returns:
        The words as the code left them.
    """
    job = (ctypes.c_uint64 * (2 * _JOB_WORDS))(0, blocks, *words)
    address = ctypes.addressof(job)
    threads = min(default_threads(), blocks // worthwhile)
    if threads <= 1:
        code.function(address, 0)
    else:
        workers = pool().lease(threads - 1, 0, limit=threads)
        # This thread takes part: the address of any memory in the place of an arena says so.
        try:
            share(workers, code.address, address, address, address + _PENDING, stop=lambda: None)
        finally:
            pool().take_back(workers, keep=max(threads, len(workers)))
    return job[2 : 2 + len(words)]
