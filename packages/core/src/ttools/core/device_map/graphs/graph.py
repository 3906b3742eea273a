"""`torch.cuda.CUDAGraph` for the mapped device."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ttools.core.device_map.graphs import capture
from ttools.core.device_map.graphs.capture import Capture, Node, capturing, cuda_error
from ttools.core.device_map.graphs.liveness import Inputs
from ttools.core.device_map.streams import DEFAULT_STREAM, current_stream
from ttools.core.errors import UnsupportedError

_pools = itertools.count(1)
_debugs = False


def graph_pool_handle() -> tuple[int, int]:
    """Implement `torch.cuda.graph_pool_handle`: return a new unique number."""
    return 0, next(_pools)


def is_capturing() -> bool:
    """Implement `torch.cuda.is_current_stream_capturing`."""
    return capturing() is not None


class CUDAGraph:
    """Work of the mapped device that is recorded once and executed at each replay.

    Args:
        keep_graph: If True, the graph can be inspected after the capture.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        self._keeps = keep_graph
        self._capture: Capture | None = None
        self._nodes: Sequence[Node] | None = None
        self._pool: tuple[int, int] = (0, 0)
        self._inputs: Inputs | None = None

    def capture_begin(
        self,
        pool: tuple[int, int] | None = None,
        capture_error_mode: str = "global",
        check_input_liveness: bool = False,
    ) -> None:
        """Begin to record the work of the current stream."""
        if capture_error_mode not in ("global", "thread_local", "relaxed"):
            raise RuntimeError(
                "Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got "
                f"{capture_error_mode}"
            )
        if self._nodes is not None:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph. To capture a new graph, "
                "create a new instance."
            )
        stream = current_stream()
        if stream == DEFAULT_STREAM:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, "
                "it's ok to replay them on the default stream.)"
            )
        self._inputs = Inputs() if check_input_liveness else None
        begun = Capture(self, stream, current_stream, self._inputs)
        capture.begin(begun)
        self._capture = begun
        self._pool = pool or (next(_pools), 0)

    def capture_end(self) -> None:
        begun = self._capture
        if begun is None:
            raise cuda_error(capture.ILLEGAL_STATE)
        if current_stream() != begun.stream:
            raise RuntimeError("Capture must end on the same stream it began on.")
        self._capture = None
        capture.leave(begun)
        begun.end()
        if not begun.nodes:
            warnings.warn(
                "The CUDA Graph is empty. This usually means that the graph was attempted to be "
                "captured on wrong device or stream.",
                stacklevel=2,
            )
        self._nodes = tuple(begun.nodes)

    def instantiate(self) -> None:
        """Check that the graph may be instantiated; its nodes need no preparation."""
        if self._nodes is None:
            raise RuntimeError("capture_end() must have been called before calling instantiate")
        if not self._keeps:
            raise RuntimeError(
                "instantiate() is intended to be called by the user only when keep_graph=true"
            )

    def replay(self) -> None:
        """Execute the recorded work, or add it to the graph that is being captured."""
        if self._nodes is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        if self._inputs is not None:
            self._inputs.check()
        outer = capturing()
        for node in self._nodes:
            if outer is None:
                node.run()
            else:
                outer.add(node.name, node.run)

    def reset(self) -> None:
        """Discard the recorded work or the capture in progress."""
        if self._capture is not None:
            capture.leave(self._capture)
        self._capture = self._nodes = self._inputs = None

    def pool(self) -> tuple[int, int]:
        """Return the handle of this graph's memory pool."""
        if self._nodes is None:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self._pool

    def register_generator_state(self, generator: object) -> None:
        """Do nothing, because replays draw from the script's generators themselves."""

    @staticmethod
    def get_currently_capturing_graph() -> Any:
        active = capturing()
        if active is None:
            raise RuntimeError("The current stream is not currently capturing.")
        return active.graph

    # ---- inspection

    def enable_debug_mode(self) -> None:
        """Allow all graphs to be dumped."""
        global _debugs
        _debugs = True

    def debug_dump(self, debug_path: str) -> None:
        """Write the recorded nodes in Graphviz format."""
        if not (_debugs or self._keeps):
            warnings.warn(
                "CUDA Graphs debug not enabled, set with [graph].enable_debug_mode()",
                stacklevel=2,
            )
            return
        nodes = self._nodes or ()
        lines = [f'  n{number} [label="{node.name}"];' for number, node in enumerate(nodes)]
        lines += [f"  n{number} -> n{number + 1};" for number in range(len(nodes) - 1)]
        text = "\n".join(("digraph capture {", *lines, "}\n"))
        Path(debug_path).write_text(text, "utf-8")

    def _refuse(self, *args: object, **kwargs: object) -> Any:
        raise UnsupportedError(
            "the `cudaGraph_t` of a CUDA graph on a mapped device, which does not use CUDA",
            help="use `debug_dump(path)`, which writes the recorded operations to a file",
        )

    raw_cuda_graph = raw_cuda_graph_exec = get_graph_data = _refuse

    def _refuse_conditions(self, *args: object) -> Any:
        raise UnsupportedError("conditional nodes of a CUDA graph on a mapped device")

    begin_capture_to_if_node = begin_capture_to_while_loop_node = _refuse_conditions
    end_capture_to_conditional_node = _refuse_conditions
