"""Calls that cannot be stopped, such as LLVM's: made in another thread, so that waiting can be.

LLVM compiles in one call that sees neither signals nor the clock. Where the work of a thread may
be stopped, the call is made by a thread of its own, and Ctrl-C or the end of the phase's time ends
the wait. The call itself goes on in the background, and what it returns is dropped.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable
from typing import Any, TypeVar

from ttools.core.process.ending import leave_abruptly
from ttools.core.process.phases import current_work
from ttools.core.process.thread_limit import starting_thread

#: How long the end of a phase's time may go unseen.
_TICK_S = 0.1

T = TypeVar("T")


def wait_for(call: Callable[[], T]) -> T:
    """Returns what a call returns; outside of any work it is made as it is.

    Raises:
        PhaseStopped: the time of the phase is over.
        ThreadLimitError: The system starts no thread.
        Exception: what the call raises.
    """
    work = current_work()
    if work is None:
        return call()
    returned: list[T] = []
    raised: list[BaseException] = []
    ended: Any = _thread.allocate_lock()

    def run() -> None:
        try:
            returned.append(call())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            raised.append(error)
        finally:
            ended.release()

    ended.acquire()
    # A thread that `threading` knows would be waited for at the end of the process.
    with starting_thread():
        _thread.start_new_thread(run, ())
    try:
        while not ended.acquire(timeout=_TICK_S):
            work.tick()
    except BaseException:
        leave_abruptly()  # taking LLVM down while it works crashes the process
        raise
    if raised:
        raise raised[0]
    return returned[0]
