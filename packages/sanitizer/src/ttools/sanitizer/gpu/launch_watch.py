"""What is replaced in Triton so that every launch of a process is logged, with its arguments.

The program must run as it does without: where the log fails, that is logged. Must not know who
reads the log.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ttools.core import triton_versions
from ttools.core.process.host_line import host_line
from ttools.interpreter.backend.autotuners import known_trial
from ttools.interpreter.backend.tuned_config import autotuner_config, tuning
from ttools.sanitizer.gpu.launch_log import LaunchLogWriter


class LaunchWatch:
    """Sees the launches of this process.

    Args:
        log: where they are written.
    """

    def __init__(self, log: LaunchLogWriter) -> None:
        self._log = log
        self._under_way: dict[int, int] = {}  # by thread

    def install(self) -> None:
        """Replaces it for the rest of the process."""
        compiled = triton_versions.compiled_kernel_class()
        compiled.launch_metadata = self._logged(compiled.launch_metadata)
        jit_function = triton_versions.jit_function_class()
        jit_function.run = self._awaited(jit_function.run)
        autotuner = triton_versions.autotuner_class()
        autotuner._bench = known_trial(autotuner._bench)
        autotuner.run = _tuned(autotuner.run)

    def _logged(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """What launchers call with the arguments before each launch."""

        def launch_metadata(kernel: Any, grid: Sequence[int], stream: Any, *args: Any) -> Any:
            wait_for_gpu()
            try:
                self._under_way[threading.get_ident()] = self._log.launch(
                    triton_versions.compiled_kernel_facts(kernel),
                    grid,
                    args,
                    line=host_line(),
                    config=autotuner_config(),
                )
            except Exception as error:  # noqa: BLE001 - the user's program goes on
                self._log.failed(f"a launch could not be logged: {type(error).__name__}: {error}")
            return original(kernel, grid, stream, *args)

        return launch_metadata

    def _awaited(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`JITFunction.run`, after which the launch has run and its errors are printed."""

        def run(function: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return original(function, *args, **kwargs)
            finally:
                number = self._under_way.pop(threading.get_ident(), None)
                if number is not None and wait_for_gpu():
                    self._log.finished(number)

        return run


def _tuned(original: Callable[..., Any]) -> Callable[..., Any]:
    """`Autotuner.run`, with each configuration run once: these times are not used."""

    def run(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        triton_versions.set_benchmark(tuner, _run_once)
        with tuning(tuner):
            return original(tuner, *args, **kwargs)

    return run


def _run_once(call: Callable[[], Any], quantiles: Sequence[float] = ()) -> Any:
    """Stands in for `do_bench`: milliseconds, as many as quantiles are asked for."""
    began = time.perf_counter()
    call()
    wait_for_gpu()
    duration = 1e3 * (time.perf_counter() - began)
    return [duration] * len(quantiles) if quantiles else duration


def wait_for_gpu() -> bool:
    """Waits until all work is done; False where one cannot: while a graph is captured, say."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return False
    try:
        if torch.cuda.is_current_stream_capturing():
            return False
        torch.cuda.synchronize()
    except RuntimeError:  # the program meets the same failure at its next call
        return False
    return True
