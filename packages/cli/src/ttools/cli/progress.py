"""Progress of long runs: a bar in a terminal, a line every ten seconds in a pipe.

Progress must not garble the output of the script. On a terminal that the script also writes to, a
line that redraws itself would do so. Therefore there is a bar only while the script waits, and
lines otherwise. `--quiet` and `TTOOLS_PROGRESS=off` disable both.
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
#: Delay before the first bar or phase is shown.
_BAR_AFTER_S = 2.0
_LINE_EVERY_S = 10.0
_REDRAWN_EVERY_S = 0.3
_BAR_WIDTH = 16
_CLEAR = "\r\x1b[2K"


@dataclass(frozen=True, kw_only=True)
class State:
    """The progress of a run.

    Attributes:
        what: Current activity, such as `tuning add_kernel`; a change restarts the measurement of
            the rate.
        done: Number of finished units.
        total: Maximum number of units; None if it is unknown.
        unit: Noun for the units, in the plural.
        one: Noun for one unit; by default `unit` without its last letter.
        facts: Further information, such as the best result so far.
        waits: True if the script waits during the work and writes nothing.
        seconds: Duration so far; by default the time since the run began.
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
        """Return, e.g., `3 of 8 launches`; empty if nothing is counted."""
        if self.done is None:
            return ""
        of = f" of {self.total:,}" if self.total else ""
        unit = self.unit
        if (self.total or self.done) == 1:
            unit = self.one or unit.removesuffix("s")
        return f"{self.done:,}{of} {unit}"


def phase_state() -> State | None:
    """Return the progress of that current phase, of any launch, that has run longest.

    The result is None if all phases have just begun, because short phases would only flicker.
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
        shared: True if the user's program runs meanwhile and may write to the same terminal.
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
        """Return whether a state would be shown now; callers ask, as computing one takes time."""
        return time.monotonic() >= (self._next_bar if self._terminal else self._next_line)

    def tick(self, state: State) -> None:
        """Show a state if it is due."""
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
            self._write(f"note: {self._text(state, now)} after {seconds:.0f} s\n")

    def clear(self) -> None:
        if self._drawn:
            self._write(_CLEAR)
            self._drawn = False

    def _bar(self, state: State, now: float) -> str:
        if not state.total or state.done is None:
            text = self._text(state, now)
            return text if state.seconds is None else f"{text}, {state.seconds:.0f} s"
        full = min(_BAR_WIDTH, _BAR_WIDTH * state.done // state.total)
        return f"[{'#' * full}{'.' * (_BAR_WIDTH - full)}] {self._text(state, now)}"

    def _text(self, state: State, now: float) -> str:
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
        """Write without the stream's lock: a process forked now would inherit it locked."""
        encoded = text.encode(self._stream.encoding or "utf-8", "replace")
        try:
            os.write(self._stream.fileno(), encoded)
        except (OSError, ValueError):  # the stream has no descriptor
            with suppress(OSError, ValueError):
                self._stream.write(text)


def is_shown() -> bool:
    """Return whether progress is shown."""
    return verbosity() != "quiet" and read(VARIABLE) != "off"


@contextmanager
def progress(state: Callable[[], State], *, shared: bool = True) -> Iterator[None]:
    """Show `state()` from time to time during the `with` block.

    Args:
        state: Returns the current state; called by another thread.
        shared: True if the user's program runs meanwhile and may write to the same terminal.
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
    """Yield a function that shows states; no thread is used, so that the process may fork."""
    if not is_shown():
        yield lambda _: None
        return
    ticker = Ticker(shared=shared)
    try:
        yield ticker.tick
    finally:
        ticker.clear()
