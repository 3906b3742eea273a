"""Finds whether autotuners run, the configurations of their launches, and how long trials take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ttools.core.launch_path import (
    INDUCTOR,
    INDUCTOR_TRIAL,
    TRIAL,
    TUNED,
    observe,
    take_over,
)
from ttools.core.patches import Patches
from ttools.interpreter.backend.tuned_config import follow_configs


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

    def _count(self, more: int) -> None:
        self.tuners += more
        self._changed()

    @contextmanager
    def known(self) -> Iterator[None]:
        """Watches autotuners, their trials and their chosen launches."""
        with Patches() as patches:
            follow_configs(patches)
            count = self._count
            for step in (TUNED, INDUCTOR):
                observe(patches, step, before=lambda *_: count(1), after=lambda *_: count(-1))
            for trial in (TRIAL, INDUCTOR_TRIAL):
                take_over(patches, trial, self._timed)
            yield

    def _timed(self, trial: Callable[..., Any]) -> Callable[..., Any]:
        def _bench(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return trial(tuner, *args, **kwargs)
            finally:
                self._leave_out(time.perf_counter() - start)

        return _bench
