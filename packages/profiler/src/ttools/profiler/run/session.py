"""The interface of profiling sessions, and the session that runs kernels on the CPU.

On the CPU, each launch is counted and then timed.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol

from ttools.core.compilation.inspection import Readings
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.specialisation import launched, source_by_kernel
from ttools.core.errors import KernelError, TtoolsError
from ttools.core.gpus.targets import Target
from ttools.core.reports.report import config_text
from ttools.core.spec import LaunchSpec
from ttools.interpreter import interpret
from ttools.interpreter.abi.module import DotMode, Instruments
from ttools.interpreter.records.record_kernels import RecordedKernel
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.interpreter.run.line_samples import LINES
from ttools.interpreter.runtime.launch import LaunchReport
from ttools.interpreter.runtime.snapshot import Snapshot
from ttools.profiler.counting.counter import WorkCounter
from ttools.profiler.counting.counts import WorkCounts
from ttools.profiler.run import launch_metrics
from ttools.profiler.run.call_times import CallTimes
from ttools.profiler.run.line_times import LineTimes
from ttools.profiler.run.origin import Context, Origin, kernel_source
from ttools.profiler.run.repetition import NOT_REPEATED, ONCE, Repetition, all_warm_up
from ttools.profiler.run.trials import Trials

#: Kinds of operations that take time on a GPU.
Kind = Literal["kernel", "copy", "fill"]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The time of a launch, or of a copy or fill of memory.

    Attributes:
        kernel: Name of the kernel, or of the operation, such as `copy host to device`.
        launch: The launch without its arguments; None for kernels of libraries, for copies and
            fills, and if several different launches were timed together.
        seconds: Duration of the launch or operation.
        counts: The work of the launch; None if it cannot be counted.
        begin: Start of the launch or operation, in seconds from the beginning of the run.
        lane: Name of the host thread or GPU stream on which it ran.
        stack: Scopes or Python functions in which the launch was made, outermost first.
        metrics: Figures that the kernel's `launch_metadata` reports, such as `flops16`, `bytes`.
        source: File and first line of the kernel; None if they are unknown.
        launches: Number of launches that were timed together, usually one.
        lines: Estimated share of the time by file and line.
        variant: The specialisation, which is a key of the session's `variants`; None if it is
            unknown.
        kind: `kernel` for a launch, or `copy` or `fill` of memory on a GPU.
    """

    kernel: str
    launch: LaunchSpec | None
    seconds: float
    counts: WorkCounts | None
    begin: float = 0.0
    lane: str = ""
    stack: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    source: tuple[str, int] | None = None
    launches: int = 1
    lines: Mapping[tuple[str, int], float] = field(default_factory=dict, compare=False)
    variant: Any = field(default=None, compare=False)
    kind: Kind = "kernel"

    @property
    def grid(self) -> tuple[int, ...]:
        """Return the extents of the grid; empty if they are unknown."""
        return () if self.launch is None else self.launch.grid

    @property
    def config(self) -> Mapping[str, Any] | None:
        """Return the autotuner's configuration of the launch; None if no autotuner made it."""
        return None if self.launch is None else self.launch.site.config


#: A function that receives the number of kinds of launches counted so far and their total number.
OnCounted = Callable[[int, int], None]


class Session(Protocol):
    """Records launches for a profile; `finish` converts them to samples.

    Attributes:
        timed_on: Processor on which kernels ran: `the CPU` or `the GPU`.
        scopes: Metrics that the program reported for its scopes, with the names of the scopes.
    """

    timed_on: str
    scopes: list[tuple[tuple[str, ...], dict[str, float]]]

    @property
    def trials(self) -> Trials:
        """Return the trials of autotuners that are left out of the samples."""

    @property
    def samples(self) -> list[Sample]:
        """Return the samples in the order of the launches."""

    @property
    def seen(self) -> int:
        """Return the number of launches so far, even during the run."""

    @property
    def recorded(self) -> object:
        """Return a value that stays equal as long as nothing more is recorded."""

    @property
    def unseen(self) -> str:
        """Return a sentence on GPU time that no figure includes; empty if there is none."""

    @property
    def notes(self) -> dict[str, str]:
        """Return the reason why launches could not be counted, by kernel."""

    @property
    def variants(self) -> dict[Any, KernelSource]:
        """Return the launched specialisations, in the order of first launches."""

    @property
    def overheads(self) -> dict[tuple[str, str], list[float]]:
        """Return the host's overhead of each call in seconds, by kernel and configuration."""

    def readings_of(self, source: KernelSource, target: Target) -> Readings | None:
        """Wait for the facts that another process derives from a kernel, and return them.

        Returns:
            None if no other process has begun to derive them.
        """

    def finish(self, progress: OnCounted = ..., *, count: bool = True) -> None:
        """Make samples of the runs that have ended.

        Args:
            progress: Called with the number of counted kinds of launches and their total.
            count: If False, launches that are not counted yet stay uncounted.
        """

    def running(self) -> AbstractContextManager[None]:
        """Profile launches during the `with` block."""


#: All launches share one object, because launchers compare instruments by identity.
_PLAIN = Instruments()


class CpuSession:
    """A run on the CPU, which counts each launch and then times it.

    Args:
        only: Names of the kernels to profile, or a predicate on names; all by default.
        threads: Number of threads that run the programs of a launch.
        context: How launches are grouped: by scopes or by Python's stack.
        repetition: Number of repetitions of launches, with and without timing.
        line_times: If True, first launches are repeated to estimate the time of each line.
        dot: The arithmetic of products of f32 tiles, see `interpret`.
        timeout: Seconds after which a launch is stopped, see `interpret`.
    """

    timed_on = "the CPU"

    def __init__(
        self,
        only: Sequence[str] | Callable[[str], bool] | None,
        threads: int | None,
        context: Context = "shadow",
        repetition: Repetition = ONCE,
        line_times: bool = False,
        dot: DotMode | None = None,
        timeout: float | None = None,
    ) -> None:
        self.samples: list[Sample] = []
        self.notes: dict[str, str] = {}
        #: This stays empty, because autotuned kernels run their first configuration without trials.
        self.trials = Trials()
        self._line_times = LineTimes(self.notes) if line_times else None
        self._origin = Origin(context)
        self.scopes = self._origin.reported
        self._interpretation = interpret(
            only=only,
            threads=threads,
            first_config=True,
            observer=self,
            dot=dot,
            timeout=timeout,
        )
        self._counter = WorkCounter()
        self._lock = threading.Lock()
        self._reported = threading.local()
        self._kernels: list[Any] = []
        self._began = time.perf_counter()
        self._repetition = repetition
        self._calls = CallTimes()
        #: Kernel and configuration by the source that Triton compiled.
        self._keys: dict[Any, tuple[str, str]] = {}
        #: The number of launches of each kind so far.
        self._made: Counter[object] = Counter()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Profile launches during the `with` block."""
        with ExitStack() as stack:
            stack.enter_context(self._origin.scopes.listening())
            take = partial(setattr, self._reported, "metrics")
            stack.enter_context(launch_metrics.reported(take))
            kernels = stack.enter_context(launched())
            stack.callback(lambda: self._kernels.extend(kernels))
            stack.enter_context(self._interpretation)
            stack.enter_context(self._calls.watching(synchronous=True))
            yield
        for kernel in {name for name, _ in self._keys.values()} - {s.kernel for s in self.samples}:
            self.notes.setdefault(kernel, all_warm_up(self._repetition.warmup))

    @property
    def seen(self) -> int:
        """Return the number of launches so far."""
        return len(self.samples)

    @property
    def recorded(self) -> object:
        """Return the number of launches so far."""
        return len(self.samples)

    def readings_of(self, source: KernelSource, target: Target) -> Readings | None:
        """Return None, because launches on the CPU do not run the code of a GPU."""
        return None

    def finish(self, progress: OnCounted = lambda *_: None, *, count: bool = True) -> None:
        """Do nothing, because launches on the CPU are counted before they run."""

    @property
    def unseen(self) -> str:
        """Return an empty text, because on the CPU only launches are timed."""
        return ""

    @property
    def overheads(self) -> dict[tuple[str, str], list[float]]:
        """Return the seconds of each call, excluding its programs, by kernel and configuration."""
        return self._calls.grouped(lambda compiled: self._keys.get(compiled.src))

    @property
    def variants(self) -> dict[Any, KernelSource]:
        """Return the specialisations that were launched."""
        chosen = {sample.kernel for sample in self.samples}
        sources = source_by_kernel(self._kernels)
        launched = {
            compiled: source for compiled, source in sources.items() if source.name in chosen
        }
        return launched | self._recorded()

    def _recorded(self) -> dict[Any, KernelSource]:
        """Return the launched kernels that come from records, and note what their records lack."""
        recorded: dict[Any, KernelSource] = {}
        for kernel in dict.fromkeys(sample.variant for sample in self.samples):
            if isinstance(kernel, RecordedKernel):
                recorded[kernel] = kernel.source
                if kernel.missing:
                    self.notes.setdefault(kernel.source.name, kernel.missing)
        return recorded

    def launch(self, launch: KernelLaunch) -> LaunchReport:
        """Count a launch, then run it. The interpreter calls this method of its observer."""
        entered = time.perf_counter()
        with self._lock:  # counts are cached, and threads of autograd also launch kernels
            counts = self._count(launch)
            warmups, times = self._iterations(launch)
        key = launch.kernel.name, config_text(launch.site.config)
        self._keys[launch.kernel.source] = key
        before = Snapshot(launch.written_storages or ()) if times > 1 else None
        runs = []
        for iteration in range(times):
            if iteration and before is not None:
                before.restore()
            begin = time.perf_counter()
            report = launch.execute(_PLAIN if self._line_times is None else LINES)
            ended = time.perf_counter()
            runs.append((ended - report.seconds, report.seconds))
        lines = {} if self._line_times is None else self._line_times.of(launch, report.seconds)
        for start, seconds in runs[warmups:]:
            self._sample(launch, counts, start, seconds, lines)
        # The remaining time of the call is its overhead.
        observed = begin - entered + time.perf_counter() - ended
        self._calls.leave_out(observed + report.seconds)
        return report

    def _iterations(self, launch: KernelLaunch) -> tuple[int, int]:
        """Return how many iterations of a launch only warm up, and how many there are in total."""
        kind = id(launch.kernel.variants), *self._counter.kind(launch)
        times = self._repetition.times(first=not self._made[kind])
        if times > 1 and launch.written_storages is None:
            self.notes.setdefault(launch.kernel.name, NOT_REPEATED)
            times = 1
        warmups = max(0, self._repetition.warmup - self._made[kind])
        self._made[kind] += times
        return min(warmups, times), times

    def _sample(
        self,
        launch: KernelLaunch,
        counts: WorkCounts | None,
        start: float,
        seconds: float,
        lines: Mapping[tuple[str, int], float],
    ) -> None:
        sample = Sample(
            kernel=launch.kernel.name,
            launch=launch.signature,
            seconds=seconds,
            counts=counts,
            begin=max(0.0, start - self._began),
            lane=threading.current_thread().name,
            stack=self._origin.stack(),
            metrics=getattr(self._reported, "metrics", {}),
            source=kernel_source(launch.kernel.function),
            lines=lines,
            variant=launch.kernel.source or launch.kernel.recorded,
        )
        with self._lock:
            self.samples.append(sample)

    def _count(self, launch: KernelLaunch) -> WorkCounts | None:
        try:
            counts = self._counter.count(launch)
        except TtoolsError as error:
            if isinstance(error, KernelError) and error.kind == "timeout":
                raise  # running the launch would reach the time limit again
            self.notes.setdefault(launch.kernel.name, getattr(error, "what", None) or str(error))
            return None
        for note in counts.notes:
            self.notes.setdefault(launch.kernel.name, note)
        return counts
