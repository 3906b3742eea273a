"""Interruptible waits for calls that cannot be stopped, such as calls of LLVM.

LLVM compiles in a single call that reacts neither to signals nor to deadlines. If the work of a
thread must be stoppable, the call therefore runs in a separate thread, and Ctrl-C or the deadline
of the phase ends the wait for the call. The call then continues in the background, and its result
is discarded. A call that may take a long time is made by a worker process instead, which is killed
when the wait ends (`worker.answer_of`).
"""

from __future__ import annotations

import _thread
from collections.abc import Callable
from typing import Any, TypeVar

from ttools.core.process.phases import current_work
from ttools.core.process.process_end import leave_abruptly
from ttools.core.process.thread_limit import starting_thread

#: Interval at which the deadline of a phase is checked.
_TICK_S = 0.1

T = TypeVar("T")


def wait_for(call: Callable[[], T]) -> T:
    """Return the result of `call`; if this thread has no active `Work`, call it directly.

    Raises:
        PhaseStopped: The time limit of the phase was reached.
        ThreadLimitError: No thread can be started.
        Exception: Any exception that the call raises.
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
    # `threading` is not used, because Python waits for its threads at the end of the process.
    with starting_thread():
        _thread.start_new_thread(run, ())
    try:
        while not ended.acquire(timeout=_TICK_S):
            work.tick()
    except BaseException:
        leave_abruptly()  # unloading LLVM while it works crashes the process
        raise
    if raised:
        raise raised[0]
    return returned[0]
