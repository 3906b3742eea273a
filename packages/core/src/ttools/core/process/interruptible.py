"""Waits that Ctrl-C can interrupt.

Waiting for a lock is a single system call. If a signal arrives just before the call, or in another
thread, Python records it but handles it only after the call has returned, so the main thread would
continue to sleep. The main thread therefore waits in short intervals. Other threads do not handle
signals and wait without a timeout.
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

#: Longest delay until a signal is handled.
_TICK_S = 0.2

T = TypeVar("T")

#: Functions that end the work of other threads, which Ctrl-C does not reach.
_stops: list[Callable[[], object]] = []


def at_interrupt(stop: Callable[[], object]) -> None:
    """Register a function to call when Ctrl-C has ended a script, before its threads are joined."""
    _stops.append(stop)


def stop_other_threads() -> None:
    """Call the registered functions after Ctrl-C has ended a script."""
    for stop in _stops:
        stop()


@contextmanager
def first_ctrl_c_ignored() -> Iterator[list[int]]:
    """Ignore the first Ctrl-C during a short critical section; the second one kills the process.

    In threads other than the main thread, this has no effect, because they do not receive Ctrl-C.

    Yields:
        The signals that have been ignored so far.
    """
    ignored: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield ignored
        return
    handler = signal.getsignal(signal.SIGINT)
    if handler in (None, signal.SIG_IGN):  # a handler that Python cannot restore, or ignored anyway
        yield ignored
        return

    def ignore(number: int, _: object) -> None:
        ignored.append(number)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    signal.signal(signal.SIGINT, ignore)
    try:
        yield ignored
    finally:
        signal.signal(signal.SIGINT, handler)


def wait(
    waiting: Iterable[futures.Future[T]],
    return_when: Literal["FIRST_COMPLETED", "ALL_COMPLETED"] = "ALL_COMPLETED",
    timeout: float | None = None,
) -> tuple[set[futures.Future[T]], set[futures.Future[T]]]:
    """Wait for futures like `concurrent.futures.wait`, but let Ctrl-C interrupt the wait.

    Args:
        timeout: Seconds; None for no limit.

    Returns:
        The futures that are done, and those that are not.
    """
    pending = list(waiting)
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        interval = (
            _TICK_S if deadline is None else min(_TICK_S, max(deadline - time.monotonic(), 0))
        )
        done, unfinished = futures.wait(pending, interval, return_when)
        enough = bool(done) if return_when == "FIRST_COMPLETED" else not unfinished
        if enough or not pending or (deadline is not None and time.monotonic() >= deadline):
            return done, unfinished


def result(future: futures.Future[T]) -> T:
    """Return the result of a future, or raise its exception; Ctrl-C interrupts the wait."""
    wait([future])
    return future.result()


def join(running: threading.Thread | BaseProcess) -> None:
    """Wait for the end of a thread or a child process; Ctrl-C interrupts the wait."""
    while running.is_alive():
        running.join(_TICK_S)


def acquire(lock: Any) -> None:
    """Acquire a lock or a semaphore; Ctrl-C interrupts the wait."""
    if threading.current_thread() is not threading.main_thread():
        lock.acquire()
        return
    while not lock.acquire(timeout=_TICK_S):
        pass
