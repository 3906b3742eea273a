"""The capture of a CUDA graph that is under way, and what belongs to it.

While a stream is captured nothing is computed there: what would be is noted as a node, to be run at
each replay. Streams take part that have waited for an event of one that does, as in CUDA. Must not
know what a node computes. What asks whether there is a capture need not import torch.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ttools.core.device_map.graphs.liveness import Inputs

NOT_PERMITTED = "operation not permitted when stream is capturing"
INVALIDATED = "operation failed due to a previous error during capture"
UNJOINED = "capturing stream has unjoined work"
ILLEGAL_STATE = "the operation cannot be performed in the present state"

#: How much of each stream's work one has waited for, by number of the stream.
Reached = dict[int, int]


@dataclass(frozen=True)
class Node:
    """A step of a graph.

    Attributes:
        name: of the operator or kernel.
        run: does it.
    """

    name: str
    run: Callable[[], object]


@dataclass(eq=False)
class Capture:
    """What is recorded of the streams that take part.

    Attributes:
        graph: what is captured.
        stream: where the capture began.
        current_stream: returns the stream that the calling thread is on.
        inputs: hears of the tensors that are kept, if somebody wants to know whether they live.
        nodes: in the order of their making, which is that of a replay.
        states: of generators, as the script was given them, and what holds each in a replay.
    """

    graph: Any
    stream: Any
    current_stream: Callable[[], Any]
    inputs: Inputs | None = None
    nodes: list[Node] = field(default_factory=list)
    states: dict[bytes, list[Any]] = field(default_factory=dict)
    _is_valid: bool = True

    def __post_init__(self) -> None:
        self._reached: dict[int, Reached] = {self.stream.stream_id: {}}
        self._lock = threading.Lock()

    def has(self, stream: Any) -> bool:
        return stream.stream_id in self._reached

    def add(self, name: str, run: Callable[[], object]) -> None:
        """Adds a node on this thread's stream."""
        self.check()
        stream = self.current_stream().stream_id
        with self._lock:
            self.nodes.append(Node(name, run))
            self._reached[stream][stream] = len(self.nodes)

    def keep(self, tensor: Any) -> Any:
        """The same memory for the graph to keep, whatever becomes of the script's tensor."""
        alias = tensor.detach()
        if self.inputs is not None:
            self.inputs.held(tensor)
        return alias

    def check(self) -> None:
        """Fails if something has failed before, after which CUDA captures nothing more.

        Raises:
            RuntimeError: it has.
        """
        if not self._is_valid:
            raise cuda_error(INVALIDATED)

    def refuse(self) -> RuntimeError:
        """The error of what is not permitted while a stream is captured, which ends the capture."""
        self.check()
        self._is_valid = False
        return cuda_error(NOT_PERMITTED)

    # ---- streams

    def recorded(self, stream: Any) -> Reached:
        """What an event knows that a stream records."""
        return dict(self._reached[stream.stream_id])

    def wait(self, stream: Any, reached: Reached) -> None:
        """Has a stream wait for an event, by which it takes part in the capture."""
        own = self._reached.setdefault(stream.stream_id, {})
        for number, count in reached.items():
            own[number] = max(own.get(number, 0), count)

    def end(self) -> None:
        """Checks that the graph is whole.

        Raises:
            RuntimeError: something has failed, or a stream's work was not waited for.
        """
        self.check()
        joined = self._reached[self.stream.stream_id]
        for number, reached in self._reached.items():
            if reached.get(number, 0) > joined.get(number, 0):
                raise cuda_error(UNJOINED)


_current: Capture | None = None
_changing = threading.Lock()


def begin(capture: Capture) -> None:
    """Begins a capture: there is one at a time in a process.

    Raises:
        RuntimeError: there is one already.
    """
    global _current
    with _changing:
        if _current is not None:
            raise cuda_error(ILLEGAL_STATE)
        _current = capture


def leave(capture: Capture) -> None:
    """Ends a capture."""
    global _current
    with _changing:
        if _current is capture:
            _current = None


def underway() -> Capture | None:
    """The capture that is under way, in whichever thread and on whichever stream."""
    return _current


def capturing() -> Capture | None:
    """The capture that what this thread does now becomes part of."""
    capture = _current
    if capture is None or not capture.has(capture.current_stream()):
        return None
    return capture


def refuse_waiting(stream: Any = None) -> None:
    """Refuses to wait for a stream that is captured, or for the device while one is.

    Raises:
        RuntimeError: nothing there is ever done.
    """
    capture = _current
    if capture is not None and (stream is None or capture.has(stream)):
        raise capture.refuse()


def cuda_error(text: str) -> RuntimeError:
    """An error of CUDA's, as torch raises it."""
    kind = getattr(sys.modules["torch"], "AcceleratorError", RuntimeError)
    error: RuntimeError = kind(f"CUDA error: {text}")
    return error
