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

from ttools.core import inductor, triton_versions
from ttools.core.launch_path import (
    CALL,
    INDUCTOR,
    INDUCTOR_TRIAL,
    METADATA,
    TUNED,
    observe,
    take_over,
)
from ttools.core.patches import Patches
from ttools.core.process.host_line import host_line
from ttools.interpreter.backend.tuned_config import autotuner_config, follow_configs, trying
from ttools.sanitizer.gpu.launch_log import LogWriter


class RunLogger:
    """Sees the launches of this process.

    Args:
        log: where they are written.
    """

    def __init__(self, log: LogWriter) -> None:
        self._log = log
        self._under_way: dict[int, int] = {}  # by thread

    def install(self) -> Patches:
        """Sees them from now on; returns what ends that."""
        patches = Patches()
        # The lines of machine code, of which the findings are, are those of what was cached.
        triton_versions.keep_files_apart(patches)
        observe(patches, METADATA, before=self._begins)
        observe(patches, CALL, after=self._ended)
        observe(patches, INDUCTOR, after=self._ended)
        follow_configs(patches)
        observe(patches, TUNED, before=_untimed)
        take_over(patches, INDUCTOR_TRIAL, lambda _: self._tried_once)
        return patches

    def _begins(self, kernel: Any, given: tuple[Any, ...], _named: dict[str, Any]) -> None:
        """Logs a launch, whose grid, stream and arguments are given."""
        wait_for_gpu()
        try:
            grid, _, *arguments = given
            self._under_way[threading.get_ident()] = self._log.launch(
                triton_versions.compiled_kernel_facts(kernel),
                grid,
                arguments,
                line=host_line(),
                config=autotuner_config(),
            )
        except Exception as error:  # noqa: BLE001 - the user's program goes on
            self._log.failed(f"a launch could not be logged: {type(error).__name__}: {error}")

    def _ended(self, *_: Any) -> None:
        """Waits for a launch that was logged: then its errors are printed."""
        number = self._under_way.pop(threading.get_ident(), None)
        if number is not None and wait_for_gpu():
            self._log.finished(number)

    def _tried_once(self, tuner: Any, launcher: Any, *args: Any, **kwargs: Any) -> float:
        """Stands in for the timing of a configuration by Inductor: milliseconds."""
        kwargs.pop("with_profiler", None)
        with trying(launcher.config):
            duration = float(_run_once(inductor.trial(tuner, launcher, args, kwargs)))
        self._ended()
        return duration


def _untimed(tuner: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
    """Has each configuration run once: these times are not used."""
    triton_versions.set_benchmark(tuner, _run_once)


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
