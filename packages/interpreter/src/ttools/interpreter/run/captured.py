"""Launches while a CUDA graph is captured: made at each replay, for the runs that are active then.

Owns what of a launch a graph keeps. Must not know how a launch is made, nor what a graph is.
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
    """Has a launch made at each replay.

    Args:
        arguments: of the launch, which is made with their memory as it then is.
        run: which the launch belongs to. One that is no other thread's business looks at launches
            before they are made: it sees those of the replays, too.
        launch: makes it with these arguments for a run.
    """
    kept = [_kept(each, capture) for each in arguments]
    looks = run is not None and not run.shared
    capture.add(kernel, lambda: launch(kept, run if looks else selecting_run(kernel)))


def _kept(argument: Any, capture: Capture) -> Any:
    """An argument for launches to come: a tensor's memory is what it is now, as a pointer's is."""
    torch = sys.modules.get("torch")
    if torch is not None and type(argument) in (torch.Tensor, torch.nn.Parameter):
        return capture.keep(argument)
    if type(argument) is tuple:
        return tuple(_kept(each, capture) for each in argument)
    return argument
