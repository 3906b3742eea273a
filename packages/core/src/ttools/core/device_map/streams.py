"""Streams and events of the mapped device, with the interface of `torch.cuda`.

Work on the CPU is synchronous, so a stream is always idle unless a graph is being captured from it.
Each thread has its own current stream. Both classes derive from torch's own classes, which Dynamo
recognises.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from typing import Any, cast

import torch

from ttools.core.device_map import events
from ttools.core.device_map.graphs.capture import (
    Capture,
    Reached,
    refuse_waiting,
    underway,
)

# torch's own classes, read before `torch.Event` is replaced.
_TorchEvent: Any = torch.Event
_TorchStream: Any = torch.Stream


class Event(events.Event, _TorchEvent):  # type: ignore[misc]
    """A point in time that behaves like `torch.cuda.Event`."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a torch event of the mapped device."""
        return _TorchEvent.__new__(cls, "cuda")

    def __init__(self, *args: Any, external: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._external = external
        #: The capture in which the event was recorded, and the work before it.
        self._captured: tuple[Capture, Reached] | None = None

    def record(self, stream: Any = None) -> None:
        """Record the current time, or during a capture, the event's position in it."""
        stream = current_stream() if stream is None else stream
        capture, self._captured = underway(), None
        if capture is None or not capture.has(stream):
            super().record(stream)
        elif self._external:
            capture.add("record event", super().record)
        else:
            self._captured = capture, capture.recorded(stream)

    def query(self) -> bool:
        """Return True, since no work is pending."""
        self._refuse_captured()
        return True

    def synchronize(self) -> None:
        """Do nothing, since no work is pending."""
        self._refuse_captured()

    def wait(self, stream: Any = None) -> None:
        """Make a stream wait for this event."""
        (current_stream() if stream is None else stream).wait_event(self)

    def _refuse_captured(self) -> None:
        if self._captured is not None and self._captured[0] is underway():
            raise self._captured[0].refuse()


class _AnyEvent(type(_TorchEvent)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _TorchEvent)


class AcceleratorEvent(Event, metaclass=_AnyEvent):
    """A point in time that behaves like `torch.Event`, the base of all events."""

    def __init__(self, device: object = None, *, enable_timing: bool = False, **_: Any) -> None:
        super().__init__(enable_timing)


_numbers = itertools.count(1)


class Stream(_TorchStream):  # type: ignore[misc]
    """A stream that is always idle and behaves like `torch.cuda.Stream`.

    `stream_id` is 0 for the default stream.

    Attributes:
        cuda_stream: The handle for C code.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a torch stream of the mapped device, with the given number or else the next."""
        number = kwargs["stream_id"] if "stream_id" in kwargs else next(_numbers)
        cuda = torch._C._autograd.DeviceType.CUDA.value
        return _TorchStream.__new__(cls, stream_id=number, device_index=0, device_type=cuda)

    def __init__(self, device: object = None, priority: int = 0, **kwargs: Any) -> None:
        self.priority = priority
        self.cuda_stream = self.stream_id
        self._before: list[Stream | None] = []

    @staticmethod
    def priority_range() -> tuple[int, int]:
        return 0, -1

    @property
    def _as_parameter_(self) -> Any:
        return ctypes.c_void_p(self.cuda_stream)

    def record_event(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def query(self) -> bool:
        """Return True, since no work is pending."""
        refuse_waiting(self)
        return True

    def is_capturing(self) -> bool:
        capture = underway()
        return capture is not None and capture.has(self)

    def wait_event(self, event: Any) -> None:
        """Join the capture in which the event was recorded, if there is one."""
        captured: tuple[Capture, Reached] | None = getattr(event, "_captured", None)
        if captured is not None and captured[0] is underway():
            captured[0].wait(self, captured[1])

    def wait_stream(self, stream: Stream) -> None:
        """Join the capture of another stream, if there is one."""
        self.wait_event(stream.record_event())

    def synchronize(self) -> None:
        """Do nothing, since no work is pending."""
        refuse_waiting(self)

    def __enter__(self) -> Stream:
        self._before.append(_own_stream())
        set_stream(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _threads.stream = self._before.pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device=cuda:0 cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream made by other code, like `torch.cuda.ExternalStream`."""

    def __new__(cls, stream_ptr: int, *args: Any, **kwargs: Any) -> Any:
        return super().__new__(cls, stream_id=stream_ptr)


DEFAULT_STREAM: Stream = Stream(stream_id=0)
_threads = threading.local()


def current_stream(device: object = None) -> Stream:
    """Return the current stream of this thread."""
    own = _own_stream()
    if own is not None:
        return own
    capture = underway()
    if capture is not None and _is_autograd_thread():
        return cast("Stream", capture.stream)
    return DEFAULT_STREAM


def _own_stream() -> Stream | None:
    return getattr(_threads, "stream", None)


def _is_autograd_thread() -> bool:
    """Return whether autograd runs a backward pass of the device on this thread.

    Autograd uses the stream of the forward pass; during a capture, that is the captured stream.
    """
    started_elsewhere = isinstance(threading.current_thread(), threading._DummyThread)
    return started_elsewhere and torch._C._current_graph_task_id() != -1


def set_stream(stream: Stream | None) -> None:
    """Make a stream current in this thread; None changes nothing."""
    if stream is not None:
        _threads.stream = stream


class StreamContext:
    """Replaces `torch.cuda.stream(…)`: makes the given stream current in the `with` block."""

    def __init__(self, stream: Stream | None = None) -> None:
        self.stream = stream
        # Dynamo reads these attributes.
        self.idx = self.prev_idx = 0

    def __enter__(self) -> None:
        self._before = _own_stream()
        set_stream(self.stream)

    def __exit__(self, *exc: object) -> None:
        _threads.stream = self._before
