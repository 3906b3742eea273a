"""A profiled run, and one on the CPU: every launch timed, and counted apart from its timing.

Owns the samples of the run. Must not know how they are summed up or shown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.launched import launched, sources_of
from ttools.core.errors import TtoolsError, UnsupportedError
from ttools.interpreter import interpret
from ttools.interpreter.emit.module import Instruments
from ttools.interpreter.launch import LaunchReport
from ttools.interpreter.observation import ObservedLaunch
from ttools.profiler import launch_metrics
from ttools.profiler.counting.counter import LaunchCounter
from ttools.profiler.counting.counts import LaunchCounts
from ttools.profiler.origin import Context, Origin, kernel_source


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One launch.

    Attributes:
        kernel: its name.
        config: of the autotuner, if one made the launch.
        grid: its extents.
        seconds: that the programs ran.
        counts: what they did; None where that cannot be counted.
        begin: seconds from the beginning of the run.
        lane: what ran it: a thread of the host, a stream of the GPU.
        stack: scopes or Python functions that the launch was made in, outermost first.
        metrics: what the kernel's `launch_metadata` tells: `flops16`, `bytes`.
        source: file and first line of the kernel; None where unknown.
        launches: how many launches these are together, where they were not timed apart.
    """

    kernel: str
    config: Mapping[str, Any] | None
    grid: tuple[int, ...]
    seconds: float
    counts: LaunchCounts | None
    begin: float = 0.0
    lane: str = ""
    stack: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    source: tuple[str, int] | None = None
    launches: int = 1


class Session(Protocol):
    """What a profile is made of.

    Attributes:
        place: where kernels ran: `the CPU`, `the GPU`.
        samples: in the order of the launches.
        notes: what could not be counted, by kernel.
        scopes: what the program told of its scopes, with the names of the scopes it was in.
    """

    place: str
    samples: list[Sample]
    notes: dict[str, str]
    scopes: list[tuple[tuple[str, ...], dict[str, float]]]

    @property
    def sources(self) -> list[KernelSource]:
        """The specialisations of kernels that were launched, in the order of first launches."""

    def running(self) -> AbstractContextManager[None]:
        """Profiles what is launched while the context lasts."""


class CpuSession:
    """A run on the CPU: an observer that counts each launch, then times it.

    Args:
        only: names of the kernels to profile; all by default.
        threads: how many threads run the programs of a launch.
        context: what launches are told apart by: scopes, or Python's stack.
    """

    place = "the CPU"

    def __init__(
        self, only: Sequence[str] | None, threads: int | None, context: Context = "shadow"
    ) -> None:
        self.samples: list[Sample] = []
        self.notes: dict[str, str] = {}
        self._origin = Origin(context)
        self.scopes = self._origin.told
        self._interpretation = interpret(
            only=only, threads=threads, first_config=True, observer=self
        )
        self._counter = LaunchCounter()
        self._lock = threading.Lock()
        self._told = threading.local()
        self._kernels: list[Any] = []
        self._began = time.perf_counter()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Profiles what is launched while the context lasts."""
        with ExitStack() as stack:
            stack.enter_context(self._origin.scopes.listening())
            stack.enter_context(launch_metrics.told(self._take))
            kernels = stack.enter_context(launched())
            stack.callback(lambda: self._kernels.extend(kernels))
            stack.enter_context(self._interpretation)
            yield

    @property
    def sources(self) -> list[KernelSource]:
        """The specialisations that were launched."""
        chosen = {sample.kernel for sample in self.samples}
        return [each for each in sources_of(self._kernels) if each.name in chosen]

    def launch(self, launch: ObservedLaunch) -> LaunchReport:
        """Counts a launch, then runs it; see `ttools.interpreter.observation`."""
        with self._lock:  # counts are remembered; threads of autograd launch too
            counts = self._count(launch)
        metrics = getattr(self._told, "metrics", {})
        report = launch.execute(Instruments())
        begin = time.perf_counter() - report.seconds - self._began
        sample = Sample(
            kernel=launch.kernel,
            config=launch.config,
            grid=tuple(map(int, launch.grid)),
            seconds=report.seconds,
            counts=counts,
            begin=max(0.0, begin),
            lane=threading.current_thread().name,
            stack=self._origin.stack(),
            metrics=metrics,
            source=kernel_source(launch.function),
        )
        with self._lock:
            self.samples.append(sample)
        return report

    def _take(self, metrics: dict[str, float]) -> None:
        self._told.metrics = metrics

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
