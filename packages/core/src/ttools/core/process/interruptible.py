"""Waiting that Ctrl-C ends.

A lock is waited for in one system call. A signal that arrives just before it, or in another thread,
is noted by Python and not seen before the call returns: the main thread would sleep on, although
the user has asked it to end. So it waits a little at a time. Other threads handle no
signals and wait in one go.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import Any, Literal, TypeVar

#: How long a signal may go unseen.
_TICK_S = 0.2

T = TypeVar("T")

#: What ends the work of other threads, which Ctrl-C does not reach.
_stops: list[Callable[[], object]] = []


def at_interrupt(stop: Callable[[], object]) -> None:
    """Has a function called when Ctrl-C has ended a script, before its threads are waited for."""
    _stops.append(stop)


def stop_other_threads() -> None:
    """Ends what other threads do for a script that Ctrl-C has ended, as far as we know how."""
    for stop in _stops:
        stop()


@contextmanager
def first_ctrl_c_ignored() -> Iterator[list[int]]:
    """Ignores the first Ctrl-C in what is short and must not be left half done; the next one kills.

    Other threads than the main one do not see Ctrl-C.

    Yields:
        The signals that were ignored so far.
    """
    ignored: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield ignored
        return
    before = signal.getsignal(signal.SIGINT)
    if before in (None, signal.SIG_IGN):  # not Python's, or ignored anyway
        yield ignored
        return

    def ignore(number: int, _: object) -> None:
        ignored.append(number)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    signal.signal(signal.SIGINT, ignore)
    try:
        yield ignored
    finally:
        signal.signal(signal.SIGINT, before)


def wait(
    waiting: Iterable[futures.Future[T]],
    return_when: Literal["FIRST_COMPLETED", "ALL_COMPLETED"] = "ALL_COMPLETED",
    timeout: float | None = None,
) -> tuple[set[futures.Future[T]], set[futures.Future[T]]]:
    """`concurrent.futures.wait`, but Ctrl-C ends it.

    Args:
        return_when: as there.
        timeout: seconds; None for any time.

    Returns:
        Those that are done, and those that are not.
    """
    every = list(waiting)
    until = None if timeout is None else time.monotonic() + timeout
    while True:
        left = _TICK_S if until is None else min(_TICK_S, max(until - time.monotonic(), 0))
        done, others = futures.wait(every, left, return_when)
        enough = bool(done) if return_when == "FIRST_COMPLETED" else not others
        if enough or not every or (until is not None and time.monotonic() >= until):
            return done, others


def result(future: futures.Future[T]) -> T:
    """The result of a future, however long it takes.

    Raises:
        Exception: what its call raised.
    """
    wait([future])
    return future.result()


def join(running: threading.Thread | BaseProcess) -> None:
    """Waits for the end of a thread or a child process."""
    while running.is_alive():
        running.join(_TICK_S)


def acquire(lock: Any) -> None:
    """Acquires a lock or a semaphore."""
    if threading.current_thread() is not threading.main_thread():
        lock.acquire()
        return
    while not lock.acquire(timeout=_TICK_S):
        pass
