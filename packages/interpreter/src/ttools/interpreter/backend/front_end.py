"""Runs Triton's front end under the time measurement and the time limit of a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ttools.core import triton_versions
from ttools.core.process.phases import tick
from ttools.interpreter.run.interpretation import Run


def compile_for_run(run: Run | None, kernel: str, compiles: Callable[[], Any]) -> Any:
    """Run the front end on a kernel for a launch, and return its result.

    Args:
        run: The run that the launch belongs to, if any.
        kernel: Name of the kernel.
        compiles: Calls the front end. Its result is never None.

    Returns:
        The compiled kernel; None if the run has stopped the front end, so that the launch is
        skipped.
    """
    start = time.perf_counter()
    try:
        if run is None or run.compile_kernel is None:
            return compiles()
        with triton_versions.each_visited_node(tick):
            return run.compile_kernel(kernel, compiles)
    finally:
        if run is not None:
            run.statistics.count_front_end(kernel, time.perf_counter() - start)
