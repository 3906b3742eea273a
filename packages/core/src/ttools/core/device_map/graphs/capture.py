"""The active capture of a CUDA graph.

While a stream is captured, nothing is computed on it. Operations are recorded as nodes, which run
at each replay. As in CUDA, another stream joins the capture by waiting for an event of a captured
stream. Querying whether a capture is active does not import torch.
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

#: A vector clock: for each other stream that a stream has waited for, by stream id, the number of
#: that stream's nodes.
Reached = dict[int, int]


@dataclass(frozen=True)
class Node:
    """A step of a graph.

    Attributes:
        name: Name of the operator or kernel.
        run: Executes the step at a replay.
    """

    name: str
    run: Callable[[], object]


@dataclass(eq=False)
class Capture:
    """The recorded work of the captured streams.

    Attributes:
        graph: The graph object of the script.
        stream: The stream on which the capture began.
        inputs: Tracks the tensors that the graph keeps alive; None unless their liveness is
            checked.
        nodes: Recorded steps in order of recording, which is the order of a replay.
        states: Maps the placeholder of a generator's state to a list that receives the state's
            value in a replay.
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
        """Add a node on this thread's stream."""
        self.check()
        stream = self.current_stream().stream_id
        with self._lock:
            self.nodes.append(Node(name, run))
            self._reached[stream][stream] = len(self.nodes)

    def keep(self, tensor: Any) -> Any:
        """Return an alias of a tensor that keeps its memory alive for the graph."""
        alias = tensor.detach()
        if self.inputs is not None:
            self.inputs.hold(tensor)
        return alias

    def check(self) -> None:
        """Fail if an earlier operation has invalidated the capture, as in CUDA.

        Raises:
            RuntimeError: The capture is invalid.
        """
        if not self._is_valid:
            raise cuda_error(INVALIDATED)

    def refuse(self) -> RuntimeError:
        """Invalidate the capture and return the error for a forbidden operation."""
        self.check()
        self._is_valid = False
        return cuda_error(NOT_PERMITTED)

    # ---- streams

    def recorded(self, stream: Any) -> Reached:
        """Return the work that precedes an event when it is recorded on a stream."""
        return dict(self._reached[stream.stream_id])

    def wait(self, stream: Any, reached: Reached) -> None:
        """Make a stream wait for an event and thereby join the capture."""
        own = self._reached.setdefault(stream.stream_id, {})
        for number, count in reached.items():
            own[number] = max(own.get(number, 0), count)

    def end(self) -> None:
        """Check that the graph is complete.

        Raises:
            RuntimeError: The capture is invalid, or the work of a stream has not been joined.
        """
        self.check()
        joined = self._reached[self.stream.stream_id]
        for number, reached in self._reached.items():
            if reached.get(number, 0) > joined.get(number, 0):
                raise cuda_error(UNJOINED)


_current: Capture | None = None
_changing = threading.Lock()


def begin(capture: Capture) -> None:
    """Begin a capture; a process has at most one.

    Raises:
        RuntimeError: Another capture is active.
    """
    global _current
    with _changing:
        if _current is not None:
            raise cuda_error(ILLEGAL_STATE)
        _current = capture


def leave(capture: Capture) -> None:
    """End a capture."""
    global _current
    with _changing:
        if _current is capture:
            _current = None


def underway() -> Capture | None:
    """Return the active capture of any thread or stream, or None."""
    return _current


def capturing() -> Capture | None:
    """Return the capture to which this thread's current stream belongs, or None."""
    capture = _current
    if capture is None or not capture.has(capture.current_stream()):
        return None
    return capture


def refuse_waiting(stream: Any = None) -> None:
    """Raise an error if host code waits for a captured stream, or for the device during a capture.

    Raises:
        RuntimeError: The stream is captured, so a wait for it would never end.
    """
    capture = _current
    if capture is not None and (stream is None or capture.has(stream)):
        raise capture.refuse()


def cuda_error(text: str) -> RuntimeError:
    """Return a CUDA error as torch raises it."""
    kind = getattr(sys.modules["torch"], "AcceleratorError", RuntimeError)
    error: RuntimeError = kind(f"CUDA error: {text}")
    return error
