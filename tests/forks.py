"""Forks of the test process, which end with their test and never run other tests."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Seconds after which SIGALRM ends a fork, which does not inherit the timer of pytest-timeout.
_MOST_SECONDS = 100


def in_fork(action: Callable[[], object]) -> int:
    """Run an action in a fork that ends with `os._exit`, and wait for it.

    Returns:
        Exit status: 1 for an exception or the result False, negative for a signal, otherwise 0.
    """
    with forked(action) as child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextmanager
def forked(action: Callable[[], object]) -> Iterator[int]:
    """Run an action in a fork, yield the process id, and finally kill the fork."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(_MOST_SECONDS)
            status = int(action() is False)
        except BaseException:  # noqa: BLE001 - the fork would otherwise continue to run tests
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
