"""Ctrl-C ends what the main thread waits for, whichever thread the signal reaches."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from ttools.core.process import interruptible

# Long enough to tell an interrupted wait from one that ended by itself on a busy machine.
_BY_ITSELF_S = 60.0


@pytest.fixture
def ended() -> Iterator[threading.Event]:
    """Set at the end of the test, or when waiting was not interrupted."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def signalled(ended: threading.Event) -> None:
    """SIGINT reaches another thread, so no system call of the main thread is interrupted by it.

    A signal just before the call begins has the same effect.
    """

    def run() -> None:
        ended.wait(0.3)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        ended.wait(_BY_ITSELF_S)

    threading.Thread(target=run, daemon=True).start()


def waits(ended: threading.Event) -> dict[str, Callable[[], Any]]:
    """Everything that waits; what it waits for comes after a long time only."""
    future: Future[None] = Future()
    semaphore = threading.Semaphore(0)

    def finish() -> None:
        ended.wait(_BY_ITSELF_S)
        future.set_result(None)
        semaphore.release()

    thread = threading.Thread(target=finish, daemon=True)
    thread.start()
    return {
        "wait": lambda: interruptible.wait([future]),
        "wait for the first": lambda: interruptible.wait([future], "FIRST_COMPLETED"),
        "wait for some time": lambda: interruptible.wait([future], timeout=_BY_ITSELF_S),
        "result": lambda: interruptible.result(future),
        "join": lambda: interruptible.join(thread),
        "acquire": lambda: interruptible.acquire(semaphore),
    }


@pytest.mark.parametrize("name", waits(threading.Event()))
def test_a_signal_in_another_thread_ends_it(
    name: str, ended: threading.Event, signalled: None
) -> None:
    with pytest.raises(KeyboardInterrupt):
        waits(ended)[name]()


def test_futures_that_are_done() -> None:
    done: Future[int] = Future()
    done.set_result(3)
    never: Future[int] = Future()
    assert interruptible.wait([done, never], "FIRST_COMPLETED") == ({done}, {never})
    assert interruptible.wait([done, never], timeout=0.01) == ({done}, {never})
    assert interruptible.wait([]) == (set(), set())
    assert interruptible.result(done) == 3
    failed: Future[int] = Future()
    failed.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        interruptible.result(failed)
