"""Shows the kernel and the phase if the checks of a test take long.

pytest captures the output of tests by redirecting the file descriptors of the process. Lines are
therefore written to a copy of standard error's descriptor that was made before the redirection.
Phases of more than five seconds are shown, with a line every ten seconds.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttools.core.process.phases import Work

TITLE = "ttools sanitize"
#: Shorter phases are not shown.
_SHOWN_AFTER_S = 5.0
_LINE_EVERY_S = 10.0
_LOOKED_AT_EVERY_S = 1.0


class PhaseProgress:
    """Shows the phase of the launch that a test is making.

    Args:
        write: Function that prints a line.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._next = 0.0
        #: Name of the test that runs.
        self.test = ""

    def start(self) -> None:
        """Start the thread that looks for long phases; start it again after a fork."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._ended.set()

    def look(self, works: list[Work]) -> None:
        """Show the phase that has run longest, if it is long and no line was shown recently."""
        longest = min(works, key=lambda work: work.phase.began, default=None)
        now = time.monotonic()
        if longest is None or longest.phase.seconds < _SHOWN_AFTER_S or now < self._next:
            return
        self._next = now + _LINE_EVERY_S
        where = f" ({self.test})" if self.test else ""
        self._write(f"{TITLE}: {longest.text()}{where}")

    def _run(self) -> None:
        from ttools.core.process.phases import works

        while not self._ended.wait(_LOOKED_AT_EVERY_S):
            self.look(works())


def terminal_writer() -> Callable[[str], object]:
    """Return a function that prints a line to the terminal, bypassing pytest's capture.

    Call this function while pytest captures nothing, for example during configuration.
    """
    try:
        copy = os.dup(sys.stderr.fileno())
    except (AttributeError, OSError, ValueError):
        copy = None  # standard error is not a file
    owner = os.getpid()

    def write(line: str) -> None:
        if copy is not None and os.getpid() == owner:
            with suppress(OSError):
                # The cursor is at the end of the line of dots that pytest prints, so a new line is
                # started.
                os.write(copy, f"\n{line}\n".encode(errors="replace"))

    return write
