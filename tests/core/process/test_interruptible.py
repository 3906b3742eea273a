"""Tests that Ctrl-C interrupts the main thread's waiting, whichever thread gets the signal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from ttools.core.process import interruptible

# Seconds after which a wait ends without an interrupt; a busy machine interrupts it much earlier.
_UNINTERRUPTED_S = 60.0


@pytest.fixture
def ended() -> Iterator[threading.Event]:
    """Yield an event that is set at the end of the test."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def signalled(ended: threading.Event) -> None:
    """Send SIGINT to another thread, where it interrupts no system call of the main thread.

    A signal to the main thread just before its system call begins has the same effect.
    """

    def run() -> None:
        ended.wait(0.3)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        ended.wait(_UNINTERRUPTED_S)

    threading.Thread(target=run, daemon=True).start()


def waits(ended: threading.Event) -> dict[str, Callable[[], Any]]:
    """Return calls that wait, by name; without an interrupt they return after a long time."""
    future: Future[None] = Future()
    semaphore = threading.Semaphore(0)

    def finish() -> None:
        ended.wait(_UNINTERRUPTED_S)
        future.set_result(None)
        semaphore.release()

    thread = threading.Thread(target=finish, daemon=True)
    thread.start()
    return {
        "wait": lambda: interruptible.wait([future]),
        "wait for the first": lambda: interruptible.wait([future], "FIRST_COMPLETED"),
        "wait for some time": lambda: interruptible.wait([future], timeout=_UNINTERRUPTED_S),
        "result": lambda: interruptible.result(future),
        "join": lambda: interruptible.join(thread),
        "acquire": lambda: interruptible.acquire(semaphore),
    }


@pytest.mark.parametrize("name", waits(threading.Event()))
def test_a_signal_in_another_thread_interrupts(
    name: str, ended: threading.Event, signalled: None
) -> None:
    with pytest.raises(KeyboardInterrupt):
        waits(ended)[name]()


def test_finished_futures() -> None:
    finished: Future[int] = Future()
    finished.set_result(3)
    never: Future[int] = Future()
    assert interruptible.wait([finished, never], "FIRST_COMPLETED") == ({finished}, {never})
    assert interruptible.wait([finished, never], timeout=0.01) == ({finished}, {never})
    assert interruptible.wait([]) == (set(), set())
    assert interruptible.result(finished) == 3
    failed: Future[int] = Future()
    failed.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        interruptible.result(failed)
