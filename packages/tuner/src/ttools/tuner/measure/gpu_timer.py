"""Times work on a GPU by events, each time with a flushed cache, short work in a CUDA graph.

Owns how one piece of work is timed. Must not know what it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

#: More than any second-level cache; writing it also gives the CPU time to queue what follows.
_FLUSHED_BYTES = 256 * 2**20
#: Work shorter than this is timed in a graph: the time to queue it would count otherwise.
SHORT_S = 50e-6
_WARM_UPS = 2

Work = Callable[[], Any]


class GpuTimer:
    """Times work on the current GPU and stream.

    Attributes:
        graphs: how many pieces of work were timed in a graph.
    """

    def __init__(self) -> None:
        self._flushed: Any = None
        self.graphs = 0

    def seconds(self, prepare: Work, work: Work, count: int) -> list[float]:
        """Times a piece of work so often, each time prepared anew, off the clock.

        Args:
            prepare: what must come before it.
            work: it queues work on the current stream.
        """
        cuda = _cuda()
        pairs = [
            self._queue(prepare, work, lambda: cuda.Event(enable_timing=True)) for _ in range(count)
        ]
        cuda.synchronize()
        return [start.elapsed_time(end) * 1e-3 for start, end in pairs]

    def seconds_in_graph(self, prepare: Work, work: Work, count: int) -> list[float] | None:
        """Times it in a CUDA graph, where the GPU never waits for the CPU.

        Returns:
            None if the work cannot be captured.
        """
        cuda = _cuda()
        graph, stream = cuda.CUDAGraph(), cuda.Stream()

        def event() -> Any:
            return cuda.Event(enable_timing=True, external=True)

        try:
            stream.wait_stream(cuda.current_stream())
            with cuda.graph(graph, stream=stream):
                pairs = [self._queue(prepare, work, event) for _ in range(count)]
            graph.replay()
            cuda.synchronize()
            found = [start.elapsed_time(end) * 1e-3 for start, end in pairs]
        except (RuntimeError, TypeError):  # what it does cannot be captured, or torch is too old
            cuda.synchronize()
            _leave_capture()
            return None
        self.graphs += 1
        return found

    def _queue(self, prepare: Work, work: Work, event: Callable[[], Any]) -> tuple[Any, Any]:
        start, end = event(), event()
        prepare()
        self._flush()
        start.record()
        work()
        end.record()
        return start, end

    def _flush(self) -> None:
        if self._flushed is None:
            import torch

            self._flushed = torch.empty(_FLUSHED_BYTES, dtype=torch.uint8, device="cuda")
        self._flushed.zero_()

    def warm_up(self, prepare: Work, work: Work) -> None:
        """Runs work so that its first time is not among those that count."""
        self.seconds(prepare, work, _WARM_UPS)


def _leave_capture() -> None:
    """After a capture that failed, torch refuses random numbers until another one succeeds."""
    cuda = _cuda()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nothing is captured
        with cuda.graph(cuda.CUDAGraph()):
            pass


def _cuda() -> Any:
    """`torch.cuda`, much of which is not annotated."""
    import torch

    return torch.cuda
