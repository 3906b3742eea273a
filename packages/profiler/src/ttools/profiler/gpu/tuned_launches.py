"""Which configuration of an autotuner a launch on the GPU is made with.

Must not know what the configuration is used for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ttools.core import triton_versions
from ttools.interpreter.backend.tuned_config import autotuner_config, trying, tuning


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
        kind = triton_versions.autotuner_class()
        run, bench = kind.run, kind._bench

        def known_run(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            self._count(1)
            try:
                with tuning(tuner):
                    return run(tuner, *args, **kwargs)
            finally:
                self._count(-1)

        def known_bench(tuner: Any, *args: Any, config: Any, **meta: Any) -> Any:
            start = time.perf_counter()
            try:
                with trying(config):
                    return bench(tuner, *args, config=config, **meta)
            finally:
                self._leave_out(time.perf_counter() - start)

        kind.run, kind._bench = known_run, known_bench
        try:
            yield
        finally:
            kind.run, kind._bench = run, bench
