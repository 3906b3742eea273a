"""Pool of native worker threads that are kept between launches.

Idle workers wait without holding the GIL. A launch leases workers, runs a job on them, and returns
them. Each worker has an arena for tiles. Workers end when the interpreter exits, or when more of
them are idle than should be kept. A forked process starts with an empty pool.
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
    """Page-aligned anonymous memory that grows when more is needed.

    Attributes:
        address: The address of the memory, until it grows.
        size: The size of the memory in bytes.
    """

    __slots__ = ("_anchor", "_memory", "address", "size")

    def __init__(self) -> None:
        self.address = 0
        self.size = 0
        self._memory: mmap.mmap | None = None
        self._anchor: ctypes.c_char | None = None

    def reserve(self, size: int) -> int:
        """Reserve `size` bytes and return their address; the previous contents are lost."""
        if size > self.size or not self.address:
            self._grow(size)
        return self.address

    def _grow(self, size: int) -> None:
        size = -(-max(size, _GRANULE, 2 * self.size if self.size < _HUGE else 0) // _GRANULE)
        size *= _GRANULE
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if size >= _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        # Drop the anchor first, because a map cannot be closed while a view of it exists.
        self._anchor = None
        self._anchor = ctypes.c_char.from_buffer(memory)
        self._memory = memory
        self.address = ctypes.addressof(self._anchor)
        self.size = size


#: Pattern of a valid number of threads; numbers with more digits are rejected.
_COUNT = re.compile(r"[0-9]{1,9}")
_EXIT = 2
_DETACHED = 1
#: Signals that are delivered to the thread that causes them. If the thread blocked them, the
#: operating system would terminate the process without calling the handler that writes the crash
#: report.
_OWN_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
#: Size of a worker's stack in bytes. Tiles are in arenas, but Python callbacks run on this stack.
_STACK_BYTES = 1024 * 1024
#: The time in nanoseconds after which a thread that waits for workers lets Python handle signals.
_TICK = 50_000_000


class Worker:
    """One thread with its mailbox and arena.

    The mailbox is never freed, because the thread may read it until it ends.
    """

    __slots__ = ("_mailbox", "address", "arena", "packed_address")

    def __init__(self) -> None:
        self.address: int = _aligned_alloc(64, ctypes.sizeof(Mailbox))
        self.packed_address = struct.pack("@P", self.address)
        ctypes.memset(self.address, 0, ctypes.sizeof(Mailbox))
        self._mailbox = Mailbox.from_address(self.address)
        self.arena = Arena()
        _start_thread(native_runtime().worker, self.address)

    def reserve(self, arena_bytes: int) -> None:
        """Make the thread's arena large enough; the thread must be idle."""
        self._mailbox.arena = self.arena.reserve(arena_bytes)

    def retire(self) -> None:
        """End the thread, which must be idle."""
        native_runtime().post(self.packed_address, 1, _EXIT)


_aligned_alloc = ctypes.CDLL(None).aligned_alloc
_aligned_alloc.restype = ctypes.c_void_p
_aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]


def _start_thread(routine: int, argument: int) -> None:
    """Start a detached native thread that blocks all signals except those of its own faults."""
    c = ctypes.CDLL(None)
    attributes = (ctypes.c_char * 128)()
    handle = ctypes.c_uint64()
    c.pthread_attr_init(attributes)
    c.pthread_attr_setdetachstate(attributes, _DETACHED)
    c.pthread_attr_setstacksize(attributes, ctypes.c_size_t(_STACK_BYTES))
    others = signal.valid_signals() - _OWN_FAULTS
    # The new thread inherits the mask, so that other signals are delivered to Python's main thread.
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
        """Take idle workers from the pool, and start new ones if there are not enough.

        Concurrent launches share the workers, so the list may be shorter than requested, or empty.

        Args:
            wanted: Number of workers to take.
            arena_bytes: Size of the arena that each worker needs.
            limit: The number of existing workers at which no new ones are started.
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
        """Return idle workers to the pool, and end workers if more than `keep` are idle."""
        with self._lock:
            self._leased -= len(workers)
            # Insert them at the front, because caches of recently used workers are warm.
            self._idle[:0] = workers
            surplus = self._idle[keep:]
            del self._idle[keep:]
        for worker in surplus:
            worker.retire()

    @property
    def idle(self) -> int:
        """The number of workers that are waiting for a job."""
        return len(self._idle)

    def close(self) -> None:
        """End the idle workers."""
        self.take_back([], keep=0)


def mailboxes(workers: Sequence[Worker]) -> bytes:
    """Return the addresses of the mailboxes as an array for native code."""
    # Creating a `ctypes` array would take longer than a tiny program runs.
    return b"".join([worker.packed_address for worker in workers])


def share(
    workers: Sequence[Worker],
    entry: int,
    job: int,
    arena: int | None,
    pending: int,
    stop: Callable[[], None],
) -> None:
    """Run a job on workers, and return when all have finished.

    Args:
        workers: Workers that the caller has leased.
        entry: Address of the native function that each worker calls with the job and its arena.
        job: Address of the job.
        arena: Address of this thread's arena; None if this thread does not take part.
        pending: Address of a word that counts the workers that have not finished.
        stop: Called if waiting is interrupted; it must make the workers finish early.
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
    """Wait for all workers and ignore Ctrl-C, because they still use the memory of this launch."""
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
    """Return the default number of threads.

    This is the value of `TTOOLS_THREADS` if it is set, otherwise the number of threads that torch
    uses, and without torch the number of available CPUs.
    """
    chosen = os.environ.get("TTOOLS_THREADS")
    if chosen:
        if not _COUNT.fullmatch(chosen) or int(chosen) < 1:
            raise UsageError(
                f"TTOOLS_THREADS={chosen[:100]}: must be a number of threads, at least 1"
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
    # A forked process does not have the threads of its parent.
    global _pool
    _pool = Pool()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
atexit.register(lambda: _pool.close())
