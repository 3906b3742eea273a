"""The child's side: writes launches and findings to the folder of the parent process.

A process may be killed at any time, so each entry is written as soon as it is complete. The launch
that is running is stored in a memory-mapped file, which keeps its contents if the process dies.
"""

from __future__ import annotations

import atexit
import mmap
import multiprocessing.util
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ttools.core.findings.findings import Finding, TallyEntry
from ttools.sanitizer.children.entry import (
    LINES,
    STATE,
    STATE_BYTES,
    Entry,
    encoded,
    this_member,
)

#: Number of launches that are written immediately, and the interval in seconds at which later
#: launches are written. Not every launch is written at once because a process may launch millions
#: of kernels.
_AT_ONCE = 64
_PAUSE_S = 0.2


class Writer:
    """Writes the report of this process for the parent process.

    Args:
        folder: Folder that the parent process reads; created if it does not exist.
        launches: Returns the numbers of launches of this process so far.
        warnings: Returns the warnings of this process so far.
    """

    def __init__(
        self,
        folder: Path,
        launches: Callable[[], list[TallyEntry]],
        warnings: Callable[[], list[str]],
    ) -> None:
        self._launches, self._warnings = launches, warnings
        self._lock = threading.Lock()
        folder.mkdir(mode=0o700, exist_ok=True)
        member = this_member()
        stem = folder / f"{member.pid}-{member.began}-{time.monotonic_ns()}"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(stem.with_suffix(LINES), flags, 0o600)
        self._state = _shared(stem.with_suffix(STATE))
        self._kernel = b""
        self._running = self._unwritten = self._count = 0
        self._written = 0.0
        self._write(Entry(member=member))
        self._end_with_process()

    @contextmanager
    def launching(self, kernel: str) -> Iterator[None]:
        """Mark a launch of a kernel as running, so that the parent can name it if it crashes."""
        name = kernel.encode()[: STATE_BYTES - 2]
        with self._lock:
            self._running += 1
            if name != self._kernel:
                self._kernel = name
                self._state[1:STATE_BYTES] = name.ljust(STATE_BYTES - 1, b"\0")
            self._state[0] = min(self._running, 255)
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                self._state[0] = min(self._running, 255)
                self._count += 1
                self._unwritten += 1
            if self._count <= _AT_ONCE or time.monotonic() - self._written > _PAUSE_S:
                self._write_launches()

    def write_findings(self, findings: Sequence[Finding]) -> None:
        """Write new findings."""
        self._write(Entry(findings=list(findings)))

    def end(self) -> None:
        """Write the remaining launches, and an entry for the normal end of the process."""
        if self._unwritten:
            self._write_launches()
        self._write(Entry(ended=True))

    def _write_launches(self) -> None:
        self._written, self._unwritten = time.monotonic(), 0
        self._write(Entry(launches=self._launches(), warnings=self._warnings()))

    def _write(self, entry: Entry) -> None:
        # Each line is written by one system call, so that lines of different threads and signal
        # handlers do not mix. If the disk is full, the program continues without its report.
        with suppress(OSError):
            os.write(self._file, encoded(entry))

    def _end_with_process(self) -> None:
        """Call `end` in each of the ways in which Python ends a process."""
        atexit.register(self._end_of, os.getpid())
        # Forked children of `multiprocessing` do not call the functions registered with `atexit`.
        multiprocessing.util.Finalize(None, self._end_of, (os.getpid(),), exitpriority=-1000)
        leave, owner = os._exit, os.getpid()

        def leave_after_end(status: int) -> None:
            self._end_of(owner)
            leave(status)

        os._exit = leave_after_end  # type: ignore[assignment]
        self._ended = False

    def _end_of(self, owner: int) -> None:
        if os.getpid() == owner and not self._ended:
            self._ended = True
            self.end()


def _shared(path: Path) -> mmap.mmap:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(handle, STATE_BYTES)
        return mmap.mmap(handle, STATE_BYTES)
    finally:
        os.close(handle)
