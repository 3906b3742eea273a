"""Timing of work on a GPU with CUDA events.

The L2 cache is flushed before each repetition. Short work is timed in a CUDA graph, because the
time to enqueue it would otherwise be included.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

#: This is larger than any L2 cache. Writing this many bytes also gives the CPU time to enqueue the
#: work that follows.
_FLUSHED_BYTES = 256 * 2**20
#: Work shorter than this many seconds is timed in a CUDA graph.
SHORT_S = 50e-6
_WARM_UPS = 2

Work = Callable[[], Any]


class GpuTimer:
    """Times work on the current GPU and stream.

    Attributes:
        graphs: Number of times that work was timed in a CUDA graph.
    """

    def __init__(self) -> None:
        self._flushed: Any = None
        self.graphs = 0

    def seconds(self, prepare: Work, work: Work, count: int) -> list[float]:
        """Time work `count` times, and return the seconds of each repetition.

        Args:
            prepare: Function that runs before each repetition, untimed.
            work: Function that enqueues the work on the current stream.
        """
        cuda = _cuda()
        pairs = [
            self._queue(prepare, work, lambda: cuda.Event(enable_timing=True)) for _ in range(count)
        ]
        cuda.synchronize()
        return [start.elapsed_time(end) * 1e-3 for start, end in pairs]

    def seconds_in_graph(self, prepare: Work, work: Work, count: int) -> list[float] | None:
        """Time work in a CUDA graph, where the GPU never waits for the CPU.

        Returns:
            Seconds of each repetition, or None if the work cannot be captured.
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
            seconds = [start.elapsed_time(end) * 1e-3 for start, end in pairs]
        except (RuntimeError, TypeError):  # the work cannot be captured, or torch is too old
            cuda.synchronize()
            _leave_capture()
            return None
        self.graphs += 1
        return seconds

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
        """Run work untimed, so that costs that only the first run has are not measured."""
        self.seconds(prepare, work, _WARM_UPS)


def _leave_capture() -> None:
    """Capture an empty graph: after a failed capture, torch rejects random numbers until then."""
    cuda = _cuda()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that the graph is empty
        with cuda.graph(cuda.CUDAGraph()):
            pass


def _cuda() -> Any:
    """Return `torch.cuda`, untyped because much of it has no annotations."""
    import torch

    return torch.cuda
