"""Streams and events of the mapped device, as `torch.cuda` has them.

Work on the CPU is synchronous, so a stream has nothing to wait for and an event is a point in time.
Which stream is current is kept for each thread, as scripts ask for it.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import time
from typing import Any


class Event:
    """A point in time, as `torch.cuda.Event`."""

    cuda_event = 0

    def __init__(self, enable_timing: bool = False, *args: Any, **kwargs: Any) -> None:
        self.enable_timing = enable_timing
        self._time_ns: int | None = None

    @property
    def device(self) -> Any:
        """The mapped device."""
        import torch

        return torch.device("cuda", 0)

    def record(self, stream: object = None) -> None:
        """Takes the time: everything before it has run."""
        self._time_ns = time.perf_counter_ns()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to `end_event`."""
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._time_ns is None or end_event._time_ns is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end_event._time_ns - self._time_ns) / 1e6

    def query(self) -> bool:
        """Always true: nothing is pending."""
        return True

    def wait(self, stream: object = None) -> None:
        """Nothing to wait for."""

    def synchronize(self) -> None:
        """Nothing to wait for."""


class AcceleratorEvent(Event):
    """A point in time, as `torch.Event`."""

    def __init__(self, device: object = None, *, enable_timing: bool = False, **_: Any) -> None:
        super().__init__(enable_timing)


_numbers = itertools.count(1)


class Stream:
    """A stream that is always idle, as `torch.cuda.Stream`.

    Attributes:
        stream_id: Its number, 0 for the default stream.
        cuda_stream: What C code is handed of it.
    """

    device_index = 0
    device_type = 1

    def __init__(self, device: object = None, priority: int = 0, **kwargs: Any) -> None:
        self.priority = priority
        self.stream_id = int(kwargs.get("stream_id", next(_numbers)))
        self.cuda_stream = self.stream_id
        self._before: list[Stream] = []

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The least and the greatest priority."""
        return 0, -1

    @property
    def device(self) -> Any:
        """The mapped device."""
        import torch

        return torch.device("cuda", 0)

    @property
    def _as_parameter_(self) -> Any:
        return ctypes.c_void_p(self.cuda_stream)

    def record_event(self, event: Event | None = None) -> Event:
        """Records `event`, or a new one."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def query(self) -> bool:
        """Always true: nothing is pending."""
        return True

    def is_capturing(self) -> bool:
        """Always false: there are no graphs."""
        return False

    def wait_event(self, event: object) -> None:
        """Nothing to wait for."""

    def wait_stream(self, stream: object) -> None:
        """Nothing to wait for."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def __enter__(self) -> Stream:
        self._before.append(current_stream())
        set_stream(self)
        return self

    def __exit__(self, *exc: object) -> None:
        set_stream(self._before.pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device=cuda:0 cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream that others have made, as `torch.cuda.ExternalStream`."""

    def __init__(self, stream_ptr: int, device: object = None, **kwargs: Any) -> None:
        super().__init__(device, stream_id=stream_ptr)


DEFAULT_STREAM = Stream(stream_id=0)
_threads = threading.local()


def current_stream(device: object = None) -> Stream:
    """The stream that this thread is on."""
    stream: Stream = getattr(_threads, "stream", DEFAULT_STREAM)
    return stream


def set_stream(stream: Stream | None) -> None:
    """Makes a stream this thread's; None changes nothing."""
    if stream is not None:
        _threads.stream = stream


class StreamContext:
    """`torch.cuda.stream(…)`: another current stream until it ends."""

    def __init__(self, stream: Stream | None = None) -> None:
        self.stream = stream
        # As torch's own, whose attributes Dynamo reads.
        self.idx = self.prev_idx = 0

    def __enter__(self) -> None:
        self._before = current_stream()
        set_stream(self.stream)

    def __exit__(self, *exc: object) -> None:
        set_stream(self._before)
