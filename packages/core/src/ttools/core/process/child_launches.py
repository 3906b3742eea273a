"""Names of kernels that child processes launch, for the report of their parent.

Children append the names to a file. The path of the file is in an environment variable, which both
forked and newly started processes inherit.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ttools.core.context_values import in_environment

#: Environment variable with the process id of the parent and the path of the file; the leading
#: underscore marks it as internal.
_VARIABLE = "_TTOOLS_CHILD_LAUNCHES"
_FORKED, _STARTED = "forked", "started"


class _Child:
    """The role of this process as a child of another process.

    Attributes:
        log: The file to write to, or None if no parent collects launches.
        kind: How the process was started: `_FORKED` or `_STARTED`.
        reported: Kernels that have been written.
    """

    def __init__(self, kind: str) -> None:
        owner, _, path = os.environ.get(_VARIABLE, "").partition(":")
        self.log = path if path and owner != str(os.getpid()) else None
        self.kind = kind
        self.reported: set[str] = set()


_child = _Child(_STARTED)


def _after_fork() -> None:
    global _child
    # A fork of a newly started process counts as newly started, because such a fork shares no state
    # with the process that collects launches.
    _child = _Child(_FORKED if _child.log is None else _child.kind)


os.register_at_fork(after_in_child=_after_fork)


def note_child_launch(kernel: str) -> None:
    """Report a launch by this process to the parent that collects launches, if there is one."""
    log = _child.log
    if log is None or kernel in _child.reported:
        return
    _child.reported.add(kernel)
    with suppress(OSError):  # the parent has ended and removed the file
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
        """Return the names, sorted."""
        return self._named(_FORKED, _STARTED)

    @property
    def of_started(self) -> list[str]:
        """Return the names from newly started processes, which do not share this process's run."""
        return self._named(_STARTED)

    def _named(self, *kinds: str) -> list[str]:
        pairs = [line.split(" ", 1) for line in self._lines()]
        return sorted({kernel for kind, kernel in pairs if kind in kinds})

    def _lines(self) -> list[str]:
        if self._kept is not None:
            return self._kept
        try:
            with open(self._path, encoding="utf-8") as file:  # noqa: PTH123
                return file.read().splitlines()
        except FileNotFoundError:  # the folder of temporary files was cleaned
            return []

    def close(self) -> None:
        """Read the names and remove the file; do nothing in a fork of this process."""
        if os.getpid() != self._owner:
            return
        self._kept = self._lines()
        with suppress(FileNotFoundError):
            os.unlink(self._path)  # noqa: PTH108


@contextmanager
def child_launches() -> Iterator[ChildKernels]:
    """Collect the kernels that children of this process launch during the `with` block."""
    handle, path = tempfile.mkstemp(prefix="ttools-children-")
    os.close(handle)
    collected = ChildKernels(path)
    previous_log, _child.log = _child.log, None  # this process reports its own launches itself
    try:
        with in_environment({_VARIABLE: f"{os.getpid()}:{path}"}):
            yield collected
    finally:
        _child.log = previous_log
        collected.close()
