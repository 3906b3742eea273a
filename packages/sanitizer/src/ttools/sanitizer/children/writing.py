"""A child's side: its launches and findings go to the folder of the run's process.

They are written as they come, for a process may end in any way: what it was doing is in memory that
it shares with a file. Must not know how findings are made.
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

#: So many launches are written at once, later ones now and then: a process may launch millions.
_AT_ONCE = 64
_PAUSE_S = 0.2


class Writer:
    """What this process writes for the run's process.

    Args:
        folder: of the run's process; made if need be.
        launches: those of this process so far.
        warnings: the same.
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
        """What the process is doing meanwhile is known should it die."""
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

    def found(self, findings: Sequence[Finding]) -> None:
        self._write(Entry(findings=list(findings)))

    def end(self) -> None:
        """Writes what is left, and that the process ends as it wants to."""
        if self._unwritten:
            self._write_launches()
        self._write(Entry(ended=True))

    def _write_launches(self) -> None:
        self._written, self._unwritten = time.monotonic(), 0
        self._write(Entry(launches=self._launches(), warnings=self._warnings()))

    def _write(self, entry: Entry) -> None:
        # One system call, so that lines of threads and signals do not mix. Where there is no room
        # the program goes on.
        with suppress(OSError):
            os.write(self._file, encoded(entry))

    def _end_with_process(self) -> None:
        """Has `end` called at each of the ways in which Python ends a process."""
        atexit.register(self._end_of, os.getpid())
        # Children of `multiprocessing` that were forked leave the functions of `atexit` out.
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
