"""What a long run shows while it lasts: a bar in a terminal, a line every ten seconds in a pipe.

Owns when and how. The script's own output must arrive untouched: where it shares the terminal, a
line that redraws itself would tear it, so a bar is there only while the script waits, and lines
otherwise. `--quiet` and `TTOOLS_PROGRESS=off` show nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ttools.cli.console import verbosity
from ttools.core.configuration import read
from ttools.core.process.phases import works
from ttools.core.process.thread_limit import starting_thread
from ttools.core.reports.numbers import elapsed

VARIABLE = "TTOOLS_PROGRESS"
#: Shorter runs show nothing.
_BAR_AFTER_S = 2.0
_LINE_EVERY_S = 10.0
_REDRAWN_EVERY_S = 0.3
_BAR_WIDTH = 16
_CLEAR = "\r\x1b[2K"


@dataclass(frozen=True, kw_only=True)
class State:
    """How far a run is.

    Attributes:
        what: is done, as `tuning add_kernel`; the rate is of what follows equal ones.
        done: so many.
        total: of so many, at most; None where that is unknown.
        unit: what is counted, in the plural.
        one: the same in the singular; by default the unit without its last letter.
        facts: what else there is to say: the best so far, how many were rejected.
        waits: whether the script waits meanwhile, and writes nothing.
        seconds: how long it has taken so far; by default since the run began.
    """

    what: str
    done: int | None
    total: int | None = None
    unit: str
    one: str = ""
    facts: tuple[str, ...] = ()
    waits: bool = False
    seconds: float | None = None

    @property
    def counted(self) -> str:
        """`3 of 8 launches`; empty if nothing is counted."""
        if self.done is None:
            return ""
        of = f" of {self.total:,}" if self.total else ""
        unit = self.unit
        if (self.total or self.done) == 1:
            unit = self.one or unit.removesuffix("s")
        return f"{self.done:,}{of} {unit}"


def phase_state() -> State | None:
    """Return how far the phase is that takes longest of those that launches are in now.

    None if all of them have just begun: they come and go more quickly than anybody reads.
    """
    longest = min(works(), key=lambda work: work.phase.began, default=None)
    if longest is None or longest.phase.seconds < _BAR_AFTER_S:
        return None
    phase = longest.phase
    return State(
        what=f"{phase.name} of {longest.kernel} (launch {longest.number:,})",
        done=phase.done,
        total=phase.total,
        unit=phase.unit,
        seconds=phase.seconds,
    )


class Ticker:
    """Shows the state of a run from time to time.

    Args:
        shared: whether the user's program runs meanwhile, and may write to the same terminal.
    """

    def __init__(self, *, shared: bool) -> None:
        self._stream = sys.stderr
        self._terminal = self._stream.isatty()
        self._shared = shared and self._terminal and sys.stdout.isatty()
        self._began = self._stage_began = time.monotonic()
        self._next_line = self._began + _LINE_EVERY_S
        self._next_bar = self._began + _BAR_AFTER_S
        self._what, self._at_first = "", 0
        self._drawn = False

    def is_due(self) -> bool:
        """Whether a state would be shown, as it takes time to find out."""
        return time.monotonic() >= (self._next_bar if self._terminal else self._next_line)

    def tick(self, state: State) -> None:
        """Shows it, if it is time to."""
        now = time.monotonic()
        if state.what != self._what:
            self._what, self._at_first, self._stage_began = state.what, state.done or 0, now
        if self._terminal and (state.waits or not self._shared):
            if now >= self._next_bar:
                self._next_bar = now + _REDRAWN_EVERY_S
                width = shutil.get_terminal_size().columns - 1
                self._write(_CLEAR + self._bar(state, now)[:width])
                self._drawn = True
            return
        self.clear()
        if now >= self._next_line:
            self._next_line = now + _LINE_EVERY_S
            seconds = now - self._began if state.seconds is None else state.seconds
            self._write(f"note: {self._told(state, now)} after {seconds:.0f} s\n")

    def clear(self) -> None:
        if self._drawn:
            self._write(_CLEAR)
            self._drawn = False

    def _bar(self, state: State, now: float) -> str:
        if not state.total or state.done is None:
            told = self._told(state, now)
            return told if state.seconds is None else f"{told}, {state.seconds:.0f} s"
        full = min(_BAR_WIDTH, _BAR_WIDTH * state.done // state.total)
        return f"[{'#' * full}{'.' * (_BAR_WIDTH - full)}] {self._told(state, now)}"

    def _told(self, state: State, now: float) -> str:
        parts = [": ".join(filter(None, [state.what, state.counted]))]
        so_far = state.done or 0
        taken, done = now - self._stage_began, so_far - self._at_first
        rate = done / taken if taken > 0 and done > 0 else 0.0
        if rate:
            parts.append(f"{rate:.3g}/s" if rate < 1000 else f"{rate:,.0f}/s")
        if rate and state.total:
            parts.append(f"{elapsed((state.total - so_far) / rate)} left")
        return ", ".join([*parts, *state.facts])

    def _write(self, text: str) -> None:
        """Without the stream's lock, which a process that is forked now would inherit held."""
        encoded = text.encode(self._stream.encoding or "utf-8", "replace")
        try:
            os.write(self._stream.fileno(), encoded)
        except (OSError, ValueError):  # it is no file
            with suppress(OSError, ValueError):
                self._stream.write(text)


def is_shown() -> bool:
    """Whether anything is."""
    return verbosity() != "quiet" and read(VARIABLE) != "off"


@contextmanager
def progress(state: Callable[[], State], *, shared: bool = True) -> Iterator[None]:
    """Shows `state()` from time to time while the context lasts.

    Args:
        state: what to show now; called by another thread.
        shared: whether the user's program runs meanwhile, and may write to the same terminal.
    """
    if not is_shown():
        yield
        return
    ticker, done = Ticker(shared=shared), threading.Event()

    def run() -> None:
        while not done.wait(_REDRAWN_EVERY_S):
            if ticker.is_due():
                ticker.tick(state())

    thread = threading.Thread(target=run, daemon=True)
    with starting_thread():
        thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        ticker.clear()


@contextmanager
def ticking(*, shared: bool = False) -> Iterator[Callable[[State], None]]:
    """Takes states as they come, without a thread: for processes that fork others."""
    if not is_shown():
        yield lambda _: None
        return
    ticker = Ticker(shared=shared)
    try:
        yield ticker.tick
    finally:
        ticker.clear()
