"""The worker threads: native ones, kept between launches, waiting outside Python's lock.

Owns the threads, their arenas and their end (interpreter exit, fork, surplus). A launch leases
workers, has them share a job, and returns them. It must not know what the
jobs are.
"""

from __future__ import annotations

import atexit
import ctypes
import mmap
import os
import re
import signal
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ttools.core.errors import TtoolsError, UsageError
from ttools.core.process.thread_limit import ThreadLimitError
from ttools.interpreter.runtime.support.native_runtime import Mailbox, native_runtime

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
        """Make room for `size` bytes and returns the address; contents are not kept."""
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


#: More digits than any number of threads has.
_COUNT = re.compile(r"[0-9]{1,9}")
_EXIT = 2
_DETACHED = 1
#: Signals of the thread that brings them on; one that blocks them dies without a handler's note.
_OWN_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
#: Address space of a worker's stack; tiles live in arenas, but Python callbacks run here too.
_STACK_BYTES = 1024 * 1024
#: How long whoever waits for workers sleeps before it lets Python handle signals, in nanoseconds.
_TICK = 50_000_000


class Worker:
    """One thread: its mailbox, which is never freed (the thread may look at it last), its arena."""

    __slots__ = ("_mailbox", "address", "arena", "packed_address")

    def __init__(self) -> None:
        self.address: int = _aligned_alloc(64, ctypes.sizeof(Mailbox))
        self.packed_address = struct.pack("@P", self.address)
        ctypes.memset(self.address, 0, ctypes.sizeof(Mailbox))
        self._mailbox = Mailbox.from_address(self.address)
        self.arena = Arena()
        _start_thread(native_runtime().worker, self.address)

    def reserve(self, arena_bytes: int) -> None:
        """Make the thread's arena large enough; only while it is idle."""
        self._mailbox.arena = self.arena.reserve(arena_bytes)

    def retire(self) -> None:
        """End the thread, which must be idle."""
        native_runtime().post(self.packed_address, 1, _EXIT)


_aligned_alloc = ctypes.CDLL(None).aligned_alloc
_aligned_alloc.restype = ctypes.c_void_p
_aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]


def _start_thread(routine: int, argument: int) -> None:
    """Start a detached native thread that takes no signals but those of its own faults."""
    c = ctypes.CDLL(None)
    attributes = (ctypes.c_char * 128)()
    handle = ctypes.c_uint64()
    c.pthread_attr_init(attributes)
    c.pthread_attr_setdetachstate(attributes, _DETACHED)
    c.pthread_attr_setstacksize(attributes, ctypes.c_size_t(_STACK_BYTES))
    others = signal.valid_signals() - _OWN_FAULTS
    # The new thread inherits the mask: signals are for Python's main thread.
    saved = signal.pthread_sigmask(signal.SIG_BLOCK, others)
    try:
        error = c.pthread_create(
            ctypes.byref(handle), attributes, ctypes.c_void_p(routine), ctypes.c_void_p(argument)
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, saved)
        c.pthread_attr_destroy(attributes)
    if error:
        raise ThreadLimitError


class Pool:
    """Idle workers, ready to be leased by any Python thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._leased = 0

    def lease(self, wanted: int, arena_bytes: int, *, limit: int) -> list[Worker]:
        """Take up to `wanted` idle workers, starting new ones while fewer than `limit` exist.

        Concurrent launches share what there is: the list may be shorter, even empty.
        """
        with self._lock:
            workers = self._idle[:wanted]
            del self._idle[:wanted]
            while len(workers) < wanted and self._leased + len(self._idle) + len(workers) < limit:
                try:
                    workers.append(Worker())
                except TtoolsError:
                    if workers or not self._leased:
                        break
                    raise
            self._leased += len(workers)
        for worker in workers:
            if worker.arena.size < arena_bytes or not worker.arena.address:
                worker.reserve(arena_bytes)
        return workers

    def take_back(self, workers: list[Worker], *, keep: int) -> None:
        """Return workers that are idle again; beyond `keep` idle ones they end."""
        with self._lock:
            self._leased -= len(workers)
            # Recently used first: their caches and stacks are warm.
            self._idle[:0] = workers
            surplus = self._idle[keep:]
            del self._idle[keep:]
        for worker in surplus:
            worker.retire()

    @property
    def idle(self) -> int:
        """Workers that wait for a job."""
        return len(self._idle)

    def close(self) -> None:
        """End the idle workers."""
        self.take_back([], keep=0)


def mailboxes(workers: Sequence[Worker]) -> bytes:
    """Return the addresses of their mailboxes, an array for native code."""
    # One of `ctypes` takes longer to make than a tiny program to run.
    return b"".join([worker.packed_address for worker in workers])


def share(
    workers: Sequence[Worker],
    entry: int,
    job: int,
    arena: int | None,
    pending: int,
    stop: Callable[[], None],
) -> None:
    """Have workers do a job, and returns when all have ended.

    Args:
        entry: address of what they call with the job and an arena.
        job: address of the job.
        arena: this thread's, if it takes part.
        pending: address of the count of those at work.
        stop: called when waiting is interrupted, so that they end early.
    """
    runtime = native_runtime()
    boxes = mailboxes(workers)
    try:
        left = runtime.share(boxes, len(workers), entry, job, 0, arena, pending, _TICK)
        while left:
            left = runtime.await_jobs(pending, _TICK)
    except BaseException:
        stop()
        _await_all(pending)
        raise


def _await_all(pending: int) -> None:
    """Wait for others, whatever the user types: they still use our memory."""
    while True:
        try:
            while native_runtime().await_jobs(pending, _TICK):
                pass
            return
        except KeyboardInterrupt:
            continue


_pool = Pool()


def pool() -> Pool:
    """Return the pool of this process."""
    return _pool


def default_threads() -> int:
    """`TTOOLS_THREADS`, else as many threads as torch uses, else one for each CPU we may use."""
    chosen = os.environ.get("TTOOLS_THREADS")
    if chosen:
        if not _COUNT.fullmatch(chosen) or int(chosen) < 1:
            raise UsageError(
                f"TTOOLS_THREADS={chosen[:100]}: not a number of threads, of which one is needed"
            )
        return int(chosen)
    torch: Any = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_num_threads"):
        return int(torch.get_num_threads())
    return len(os.sched_getaffinity(0))


def _before_fork() -> None:
    _pool._lock.acquire()


def _after_fork_in_parent() -> None:
    _pool._lock.release()


def _after_fork_in_child() -> None:
    # The threads do not exist here; their mailboxes and arenas are kept for the parent's sake
    # only by the parent. Start anew.
    global _pool
    _pool = Pool()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
atexit.register(lambda: _pool.close())
