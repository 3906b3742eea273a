"""Kernels that child processes launch, of which the report of their parent must say something.

Owns the file in which children write the names of their kernels: they find it by a variable of the
environment, which forked processes and those that start anew both inherit. Must not know what the
parent reports.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ttools.core.context_values import in_environment

#: The parent's number and the file's path. Not for users, so it begins otherwise than theirs.
_VARIABLE = "_TTOOLS_CHILD_LAUNCHES"
_FORKED, _STARTED = "forked", "started"


class _Child:
    """What this process is to others.

    Attributes:
        log: where to write, if this is a child of a process that wants to know.
        kind: how it came to be.
        noted: kernels that were written.
    """

    def __init__(self, kind: str) -> None:
        owner, _, path = os.environ.get(_VARIABLE, "").partition(":")
        self.log = path if path and owner != str(os.getpid()) else None
        self.kind = kind
        self.noted: set[str] = set()


_child = _Child(_STARTED)


def _after_fork() -> None:
    global _child
    # What is forked by a process that started anew has nothing of the parent's either.
    _child = _Child(_FORKED if _child.log is None else _child.kind)


os.register_at_fork(after_in_child=_after_fork)


def note_child_launch(kernel: str) -> None:
    """Tells the parent, if there is one that wants to know, that this process launched a kernel."""
    log = _child.log
    if log is None or kernel in _child.noted:
        return
    _child.noted.add(kernel)
    with suppress(OSError):  # the parent has ended
        file = os.open(log, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, f"{_child.kind} {kernel}\n".encode())
        finally:
            os.close(file)


class ChildKernels:
    """The kernels that children of this process have launched so far."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._owner = os.getpid()
        self._kept: list[str] | None = None

    @property
    def kernels(self) -> list[str]:
        """Names, sorted."""
        return self._named(_FORKED, _STARTED)

    @property
    def of_started(self) -> list[str]:
        """Those of processes that began anew, which know nothing of a run in this one."""
        return self._named(_STARTED)

    def _named(self, *kinds: str) -> list[str]:
        pairs = [line.split(" ", 1) for line in self._lines()]
        return sorted({kernel for kind, kernel in pairs if kind in kinds})

    def _lines(self) -> list[str]:
        if self._kept is not None:
            return self._kept
        try:
            with open(self._path, encoding="utf-8") as file:  # noqa: PTH123 - as it was made
                return file.read().splitlines()
        except FileNotFoundError:  # somebody has cleaned the folder of temporary files
            return []

    def close(self) -> None:
        """Keeps what was written and removes the file; a fork of the process leaves it alone."""
        if os.getpid() != self._owner:
            return
        self._kept = self._lines()
        with suppress(FileNotFoundError):
            os.unlink(self._path)  # noqa: PTH108


@contextmanager
def child_launches() -> Iterator[ChildKernels]:
    """Has children of this process tell which kernels they launch."""
    handle, path = tempfile.mkstemp(prefix="ttools-children-")
    os.close(handle)
    found = ChildKernels(path)
    was, _child.log = _child.log, None  # this process has a report of its own
    try:
        with in_environment({_VARIABLE: f"{os.getpid()}:{path}"}):
            yield found
    finally:
        _child.log = was
        found.close()
