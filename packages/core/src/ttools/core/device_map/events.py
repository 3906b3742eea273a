"""Events of the mapped device for code that measures time without importing torch."""

from __future__ import annotations

import time
from typing import Any


class Event:
    """A point in time that behaves like `torch.cuda.Event`."""

    cuda_event = 0

    def __init__(self, enable_timing: bool = False, *args: Any, **kwargs: Any) -> None:
        self.enable_timing = enable_timing
        self._time_ns: int | None = None

    @property
    def device(self) -> Any:
        import torch

        return torch.device("cuda", 0)

    def record(self, stream: object = None) -> None:
        """Record the current time; all earlier work has already finished."""
        self._time_ns = time.perf_counter_ns()

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds from this event to `end_event`."""
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._time_ns is None or end_event._time_ns is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end_event._time_ns - self._time_ns) / 1e6

    def query(self) -> bool:
        """Return True, since no work is pending."""
        return True

    def wait(self, stream: object = None) -> None:
        """Do nothing, since no work is pending."""

    def synchronize(self) -> None:
        """Do nothing, since no work is pending."""
