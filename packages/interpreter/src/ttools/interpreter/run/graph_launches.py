"""Launches during the capture of a CUDA graph, which are made at each replay of the graph.

A replayed launch belongs to the runs that are active during the replay.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from ttools.core.device_map.graphs.capture import Capture
from ttools.interpreter.run.interpretation import Run, selecting_run


def record_launch(
    capture: Capture,
    kernel: str,
    arguments: Sequence[Any],
    run: Run | None,
    launch: Callable[[Sequence[Any], Run | None], object],
) -> None:
    """Add a launch to a graph, which makes it at each replay.

    Args:
        capture: The capture of the graph.
        kernel: Name of the kernel.
        arguments: Arguments of the launch. A replay uses the contents that their memory has then.
        run: The run that the launch belongs to. If the run is not shared with other threads,
            replays of the launch belong to it, too.
        launch: Makes the launch with the given arguments for a run.
    """
    kept = [_kept(argument, capture) for argument in arguments]
    looks = run is not None and not run.shared
    capture.add(kernel, lambda: launch(kept, run if looks else selecting_run(kernel)))


def _kept(argument: Any, capture: Capture) -> Any:
    """Return an argument for replays; a tensor keeps the memory that it has during the capture."""
    torch = sys.modules.get("torch")
    if torch is not None and type(argument) in (torch.Tensor, torch.nn.Parameter):
        return capture.keep(argument)
    if type(argument) is tuple:
        return tuple(_kept(element, capture) for element in argument)
    return argument
