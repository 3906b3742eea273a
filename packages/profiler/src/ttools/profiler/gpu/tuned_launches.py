"""Which configuration of an autotuner a launch on the GPU is made with.

Must not know what the configuration is used for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ttools.core.launch_path import TRIAL, TUNED, observe, take_over
from ttools.core.patches import Patches
from ttools.interpreter.backend.tuned_config import autotuner_config, follow_configs


class TunedConfigs:
    """Knows the configurations of launches while `known`.

    Args:
        leave_out: takes the seconds of each trial.
        changed: hears of changes of `tuners`.

    Attributes:
        tuners: how many autotuners are running; without any a launch has no configuration.
    """

    def __init__(self, leave_out: Callable[[float], None], changed: Callable[[], object]) -> None:
        self.tuners = 0
        self._changed = changed
        self._leave_out = leave_out

    def current(self) -> Mapping[str, Any] | None:
        """Of the launch being made by this thread; None without an autotuner."""
        return autotuner_config()

    def _count(self, more: int) -> None:
        self.tuners += more
        self._changed()

    @contextmanager
    def known(self) -> Iterator[None]:
        """Watches autotuners, their trials and their chosen launches."""
        with Patches() as patches:
            follow_configs(patches)
            observe(patches, TUNED, before=self._begins, after=self._ends)
            take_over(patches, TRIAL, self._timed)
            yield

    def _begins(self, *_: Any) -> None:
        self._count(1)

    def _ends(self, *_: Any) -> None:
        self._count(-1)

    def _timed(self, trial: Callable[..., Any]) -> Callable[..., Any]:
        def _bench(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return trial(tuner, *args, **kwargs)
            finally:
                self._leave_out(time.perf_counter() - start)

        return _bench
