"""Streams and events of the mapped device, as `torch.cuda` has them.

Work on the CPU is synchronous, so a stream has nothing to wait for. Which stream is current is kept
for each thread, as scripts ask for it. Both are torch's own, by which Dynamo knows them.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from typing import Any, cast

import torch

from ttools.core.device_map import events

# Before `torch.Event` is replaced.
_TorchEvent: Any = torch.Event
_TorchStream: Any = torch.Stream


class Event(events.Event, _TorchEvent):  # type: ignore[misc]
    """A point in time, as `torch.cuda.Event`."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """An event of torch's, of the mapped device."""
        return _TorchEvent.__new__(cls, "cuda")


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
        self._before: list[Stream] = []

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The least and the greatest priority."""
        return 0, -1

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

    def __new__(cls, stream_ptr: int, *args: Any, **kwargs: Any) -> Any:
        """A stream of that number."""
        return super().__new__(cls, stream_id=stream_ptr)


DEFAULT_STREAM: Stream = Stream(stream_id=0)
_threads = threading.local()


def current_stream(device: object = None) -> Stream:
    """The stream that this thread is on."""
    return cast("Stream", getattr(_threads, "stream", DEFAULT_STREAM))


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
