"""How long an analysis may take."""

from __future__ import annotations

import math
import time

#: So many times as long on the clock, where others share the processor.
STRETCH = 4.0


class Limit:
    """An end of time, counted in what the thread that makes it computes.

    So what is proved depends little on what else the machine does. Waiting has an end, too.

    Args:
        seconds: of computing; without end by default.
        stretch: so many times as long it may take on the clock.
    """

    def __init__(self, seconds: float = math.inf, stretch: float = STRETCH) -> None:
        self._computing = time.thread_time() + seconds
        self._clock = time.monotonic() + stretch * seconds

    @property
    def left(self) -> float:
        """Seconds to its end."""
        return min(self._computing - time.thread_time(), self._clock - time.monotonic())
