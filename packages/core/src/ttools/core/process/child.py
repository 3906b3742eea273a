"""Trying something in a child process that may end of it.

Native libraries that trust their input abort or overflow their stack on what a user may give them.
The child begins anew: a fork of a process with many threads may wait for ever for a lock that one
of them held. Owns the child, and what came of it. Must not know what is tried.
"""

from __future__ import annotations

import importlib
import os
import resource
import signal
import subprocess
import sys
from dataclasses import dataclass

from ttools.core.process.joining import without_run

# The child imports what this process would, but for files of a user beside the script.
_PROGRAM = "import sys; sys.path[:] = {path!r}; from ttools.core.process.child import _act; _act()"


@dataclass(frozen=True)
class Ending:
    """How a child ended.

    Attributes:
        code: what its function returned, or the negative number of a signal; SIGALRM's if it took
            too long. 1, as Python ends with, if it raised an exception.
        errors: what it wrote to standard error, if that was kept.
    """

    code: int
    errors: str = ""

    @property
    def signal(self) -> str | None:
        return signal.Signals(-self.code).name if self.code < 0 else None


def in_child(function: str, *arguments: str, seconds: int, keep_errors: bool = False) -> Ending:
    """Calls a function in a new process and waits for its end.

    Args:
        function: `module:name`; returns the exit status.
        seconds: after which the child is ended.
        keep_errors: whether its standard error is kept for the caller, not shown.

    Raises:
        OSError: no process can be started here.
    """
    path = [entry for entry in sys.path if entry]
    command = [sys.executable, "-c", _PROGRAM.format(path=path), function, *arguments]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE if keep_errors else None,
            env=without_run(os.environ),
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ending(-signal.SIGALRM)
    return Ending(done.returncode, (done.stderr or b"").decode(errors="replace"))


def _act() -> None:
    # A crash is expected, so the machine need not keep a file of it.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    module, _, name = sys.argv[1].partition(":")
    code = getattr(importlib.import_module(module), name)(*sys.argv[2:])
    sys.stderr.flush()
    os._exit(code)
