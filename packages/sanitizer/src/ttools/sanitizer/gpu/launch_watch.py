"""Logs every launch of this process, with its arguments, by hooks in Triton and Inductor.

The hooks do not change what the program computes. If a launch cannot be logged, the log says so and
the program continues.
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
    """Logs the launches of this process.

    Args:
        log: The log to which the launches are written.
    """

    def __init__(self, log: LogWriter) -> None:
        self._log = log
        self._under_way: dict[int, int] = {}  # number of the launch, by thread

    def install(self) -> Patches:
        """Install the hooks; return the patches, which can remove them."""
        patches = Patches()
        # Errors are reported at the source lines stored in the machine code, so Triton's cache must
        # not return the code of an equal kernel from another file.
        triton_versions.keep_files_apart(patches)
        observe(patches, METADATA, before=self._begins)
        observe(patches, CALL, after=self._ended)
        observe(patches, INDUCTOR, after=self._ended)
        follow_configs(patches)
        observe(patches, TUNED, before=_untimed)
        take_over(patches, INDUCTOR_TRIAL, lambda _: self._tried_once)
        return patches

    def _begins(self, kernel: Any, passed: tuple[Any, ...], _named: dict[str, Any]) -> None:
        """Log a launch; `passed` consists of its grid, its stream and its arguments."""
        wait_for_gpu()
        try:
            grid, _, *arguments = passed
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
        """Wait until the logged launch has finished and its errors are printed; log its end."""
        number = self._under_way.pop(threading.get_ident(), None)
        if number is not None and wait_for_gpu():
            self._log.finished(number)

    def _tried_once(self, tuner: Any, launcher: Any, *args: Any, **kwargs: Any) -> float:
        """Replace Inductor's timing of a configuration by one run; return its milliseconds."""
        kwargs.pop("with_profiler", None)
        with trying(launcher.config):
            duration = float(_run_once(inductor.trial(tuner, launcher, args, kwargs)))
        self._ended()
        return duration


def _untimed(tuner: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
    """Make an autotuner run each configuration once, because times under a tool are meaningless."""
    triton_versions.set_benchmark(tuner, _run_once)


def _run_once(call: Callable[[], Any], quantiles: Sequence[float] = ()) -> Any:
    """Replace `do_bench` by one run; return its milliseconds, once for each quantile."""
    began = time.perf_counter()
    call()
    wait_for_gpu()
    duration = 1e3 * (time.perf_counter() - began)
    return [duration] * len(quantiles) if quantiles else duration


def wait_for_gpu() -> bool:
    """Wait until the GPU has finished all work.

    Returns:
        False if waiting is not possible, for example while a CUDA graph is captured.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return False
    try:
        if torch.cuda.is_current_stream_capturing():
            return False
        torch.cuda.synchronize()
    except RuntimeError:  # the program's next call raises the same error
        return False
    return True
