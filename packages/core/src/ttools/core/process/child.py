"""Trying something in a child process that may end the process.

Native libraries that trust their input abort or overflow their stack on what a user may give them.
Owns the fork, and what came of it. Must not know what is tried.
"""

from __future__ import annotations

import os
import signal
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

#: The exit status of a child whose action raised an exception.
RAISED = 99
_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)


@dataclass(frozen=True)
class Ending:
    """How a child ended.

    Attributes:
        code: what its action returned, `RAISED`, or the negative number of a signal.
        errors: what it wrote to standard error, if that was kept.
    """

    code: int
    errors: str = ""

    @property
    def signal(self) -> str | None:
        """The name of the signal that ended it."""
        return signal.Signals(-self.code).name if self.code < 0 else None


def in_child(action: Callable[[], int], *, seconds: int, keep_errors: bool = False) -> Ending:
    """Runs an action in a fork of this process and waits for its end.

    Args:
        action: returns the exit status, 0 to 98.
        seconds: after which the child is ended by SIGALRM.
        keep_errors: whether its standard error is kept for the caller, not shown.
    """
    with tempfile.TemporaryFile() as errors:
        with warnings.catch_warnings():
            # Python 3.12 warns of threads; the child runs none of what they hold.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            _act(action, seconds, errors.fileno() if keep_errors else None)
        _, status = os.waitpid(child, 0)
        errors.seek(0)
        return Ending(os.waitstatus_to_exitcode(status), errors.read().decode(errors="replace"))


def _act(action: Callable[[], int], seconds: int, errors: int | None) -> NoReturn:
    code = RAISED
    try:
        for number in (*_FAULTS, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(seconds)
        if errors is not None:
            os.dup2(errors, 2)
        code = action()
    finally:
        # Not `sys.exit`: what the parent has to tidy up is the parent's.
        os._exit(code)
