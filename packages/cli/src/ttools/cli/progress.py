"""What a long run shows while it lasts: launches so far, on a terminal's standard error.

Owns when and how. The script's own output must arrive untouched: where it shares the terminal, a
line that redraws itself would tear it, so there progress is whole lines, ever less often.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.live import Live
from rich.spinner import Spinner

from ttools.cli.console import say, stderr

_FIRST_LINE_S = 10.0


@contextmanager
def progress(state: Callable[[], str]) -> Iterator[None]:
    """Shows `state()` from time to time while the context lasts; nothing without a terminal.

    Args:
        state: what to show now; called by another thread.
    """
    if not sys.stderr.isatty():
        yield
        return
    with _lines(state) if sys.stdout.isatty() else _status(state):
        yield


def _status(state: Callable[[], str]) -> Live:
    """One line that redraws itself, and is gone in the end."""
    spinner = Spinner("dots", state())

    def renderable() -> Spinner:
        spinner.update(text=state())
        return spinner

    return Live(
        get_renderable=renderable,
        console=stderr(),
        transient=True,
        # rich would send what the script prints to standard error.
        redirect_stdout=False,
        redirect_stderr=False,
    )


@contextmanager
def _lines(state: Callable[[], str]) -> Iterator[None]:
    done = threading.Event()
    thread = threading.Thread(target=_say_until, args=(state, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _say_until(state: Callable[[], str], done: threading.Event) -> None:
    """A line after some seconds, and after each time twice as long."""
    began = time.monotonic()
    pause = _FIRST_LINE_S
    while not done.wait(pause):
        say("note", f"{state()} after {time.monotonic() - began:.0f} s")
        pause *= 2
