"""Streams and events of the mapped device, as `torch.cuda` has them.

Work on the CPU is synchronous, so a stream has nothing to wait for, unless it is captured for a
graph. Which stream is current is kept for each thread, as scripts ask for it. Both are torch's own,
by which Dynamo knows them.
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

# Before `torch.Event` is replaced.
_TorchEvent: Any = torch.Event
_TorchStream: Any = torch.Stream


class Event(events.Event, _TorchEvent):  # type: ignore[misc]
    """A point in time, as `torch.cuda.Event`."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """An event of torch's, of the mapped device."""
        return _TorchEvent.__new__(cls, "cuda")

    def __init__(self, *args: Any, external: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._external = external
        #: The capture that it is a point of, and the work before it.
        self._captured: tuple[Capture, Reached] | None = None

    def record(self, stream: Any = None) -> None:
        """Takes the time, or notes a point of what is captured."""
        stream = current_stream() if stream is None else stream
        capture, self._captured = underway(), None
        if capture is None or not capture.has(stream):
            super().record(stream)
        elif self._external:
            capture.add("record event", super().record)
        else:
            self._captured = capture, capture.recorded(stream)

    def query(self) -> bool:
        """Always true: nothing is pending."""
        self._refuse_captured()
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""
        self._refuse_captured()

    def wait(self, stream: Any = None) -> None:
        """Has a stream wait."""
        (current_stream() if stream is None else stream).wait_event(self)

    def _refuse_captured(self) -> None:
        if self._captured is not None and self._captured[0] is underway():
            raise self._captured[0].refuse()


class _AnyEvent(type(_TorchEvent)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _TorchEvent)


class AcceleratorEvent(Event, metaclass=_AnyEvent):
    """A point in time, as `torch.Event`, which any event is."""

    def __init__(self, device: object = None, *, enable_timing: bool = False, **_: Any) -> None:
        super().__init__(enable_timing)


_numbers = itertools.count(1)


class Stream(_TorchStream):  # type: ignore[misc]
    """A stream that is always idle, as `torch.cuda.Stream`.

    Its `stream_id` is a number, 0 for the default stream.

    Attributes:
        cuda_stream: What C code is handed of it.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """A stream of torch's, of the mapped device, with the next number or the one given."""
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
        """Always true: nothing is pending."""
        refuse_waiting(self)
        return True

    def is_capturing(self) -> bool:
        capture = underway()
        return capture is not None and capture.has(self)

    def wait_event(self, event: Any) -> None:
        """Takes part in the capture that the event is a point of, if it is."""
        captured: tuple[Capture, Reached] | None = getattr(event, "_captured", None)
        if captured is not None and captured[0] is underway():
            captured[0].wait(self, captured[1])

    def wait_stream(self, stream: Stream) -> None:
        """Takes part in the capture of another stream, if there is one."""
        self.wait_event(stream.record_event())

    def synchronize(self) -> None:
        """Nothing to wait for."""
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
    """A stream that others have made, as `torch.cuda.ExternalStream`."""

    def __new__(cls, stream_ptr: int, *args: Any, **kwargs: Any) -> Any:
        return super().__new__(cls, stream_id=stream_ptr)


DEFAULT_STREAM: Stream = Stream(stream_id=0)
_threads = threading.local()


def current_stream(device: object = None) -> Stream:
    """The stream that this thread is on."""
    own = _own_stream()
    if own is not None:
        return own
    capture = underway()
    if capture is not None and _is_autograd_s():
        return cast("Stream", capture.stream)
    return DEFAULT_STREAM


def _own_stream() -> Stream | None:
    return getattr(_threads, "stream", None)


def _is_autograd_s() -> bool:
    """Whether this is the thread in which autograd computes backward passes of the device.

    It does so on the stream of the forward pass; one that is captured is meant while there is one.
    """
    started_elsewhere = isinstance(threading.current_thread(), threading._DummyThread)
    return started_elsewhere and torch._C._current_graph_task_id() != -1


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
        self._before = _own_stream()
        set_stream(self.stream)

    def __exit__(self, *exc: object) -> None:
        _threads.stream = self._before
