"""What the pytest plugin shows while the checks of one test take long: the kernel and the phase.

pytest captures what a test writes, and with it the descriptors of the process, so lines go to a
copy of standard error that was made before. Only phases that take long are shown, a line every ten
seconds.
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
    """Shows what the launches of tests are at.

    Args:
        write: takes a line.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._next = 0.0
        #: Name of the test that runs.
        self.test = ""

    def start(self) -> None:
        """Looks from now on; in a forked process again."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Ends the looking."""
        self._ended.set()

    def look(self, works: list[Work]) -> None:
        """Shows the phase that takes longest, if that is to be shown now."""
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
    """Return what writes lines where pytest captures nothing.

    It has to be called while pytest captures nothing, as when it is configured.
    """
    try:
        copy = os.dup(sys.stderr.fileno())
    except (AttributeError, OSError, ValueError):
        copy = None  # standard error is no file
    owner = os.getpid()

    def write(line: str) -> None:
        if copy is not None and os.getpid() == owner:
            with suppress(OSError):
                # The terminal is in the middle of a line of dots.
                os.write(copy, f"\n{line}\n".encode(errors="replace"))

    return write
