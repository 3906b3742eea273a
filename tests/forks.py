"""Forks of the process that tests run in; none outlives its test or goes on with other tests."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Seconds after which a fork ends itself: it has no thread that would end a test.
_MOST_SECONDS = 100


def in_fork(action: Callable[[], object]) -> int:
    """Runs an action in a fork, which ends without any of Python's own steps.

    Returns:
        Its exit status: 0, 1 for an exception or a result that is False, negative for a signal.
    """
    with forked(action) as child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextmanager
def forked(action: Callable[[], object]) -> Iterator[int]:
    """Runs an action in a fork, whose number it gives, and kills the fork at the end."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(_MOST_SECONDS)
            status = int(action() is False)
        except BaseException:  # noqa: BLE001 - it must not go on as the process it is a copy of
            traceback.print_exc()
        finally:
            os._exit(status)
    try:
        yield child
    finally:
        try:
            ended, _ = os.waitpid(child, os.WNOHANG)
        except ChildProcessError:  # it was waited for
            ended = child
        if not ended:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
