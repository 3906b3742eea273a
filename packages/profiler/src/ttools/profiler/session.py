"""One profiled run on the CPU: every launch timed, and counted apart from its timing.

Owns the samples of the run. Must not know how they are summed up or shown.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ttools.core.errors import TtoolsError, UnsupportedError
from ttools.interpreter.emit.module import Instruments
from ttools.interpreter.launch import LaunchReport
from ttools.interpreter.observation import ObservedLaunch
from ttools.profiler.counting.counter import LaunchCounter
from ttools.profiler.counting.counts import LaunchCounts


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One launch.

    Attributes:
        kernel: its name.
        config: of the autotuner, if one made the launch.
        grid: its extents.
        seconds: that the programs ran.
        counts: what they did; None where that cannot be counted.
    """

    kernel: str
    config: Mapping[str, Any] | None
    grid: tuple[int, ...]
    seconds: float
    counts: LaunchCounts | None


class Session:
    """Observes the launches of a run.

    Attributes:
        samples: in the order of the launches.
        notes: what could not be counted, by kernel.
    """

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.notes: dict[str, str] = {}
        self._counter = LaunchCounter()
        self._lock = threading.Lock()

    def launch(self, launch: ObservedLaunch) -> LaunchReport:
        """Counts a launch, then runs it; see `ttools.interpreter.observation`."""
        with self._lock:  # counts are remembered; threads of autograd launch too
            counts = self._count(launch)
        report = launch.execute(Instruments())
        sample = Sample(
            kernel=launch.kernel,
            config=launch.config,
            grid=tuple(map(int, launch.grid)),
            seconds=report.seconds,
            counts=counts,
        )
        with self._lock:
            self.samples.append(sample)
        return report

    def _count(self, launch: ObservedLaunch) -> LaunchCounts | None:
        try:
            counts = self._counter.count(launch)
        except UnsupportedError as error:
            self.notes.setdefault(launch.kernel, error.what)
            return None
        except TtoolsError as error:
            self.notes.setdefault(launch.kernel, str(error))
            return None
        for note in counts.notes:
            self.notes.setdefault(launch.kernel, note)
        return counts
