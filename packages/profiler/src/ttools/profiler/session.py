"""A profiled run, and one on the CPU: every launch timed, and counted apart from its timing.

Owns the samples of the run. Must not know how they are summed up or shown.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from ttools.core.errors import TtoolsError, UnsupportedError
from ttools.interpreter import interpret
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


class Session(Protocol):
    """What a profile is made of.

    Attributes:
        place: where kernels ran: `the CPU`, `the GPU`.
        samples: in the order of the launches.
        notes: what could not be counted, by kernel.
    """

    place: str
    samples: list[Sample]
    notes: dict[str, str]

    def running(self) -> AbstractContextManager[None]:
        """Profiles what is launched while the context lasts."""


class CpuSession:
    """A run on the CPU: an observer that counts each launch, then times it.

    Args:
        only: names of the kernels to profile; all by default.
        threads: how many threads run the programs of a launch.
    """

    place = "the CPU"

    def __init__(self, only: Sequence[str] | None, threads: int | None) -> None:
        self.samples: list[Sample] = []
        self.notes: dict[str, str] = {}
        self._interpretation = interpret(
            only=only, threads=threads, first_config=True, observer=self
        )
        self._counter = LaunchCounter()
        self._lock = threading.Lock()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Profiles what is launched while the context lasts."""
        with self._interpretation:
            yield

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
