"""Profiled runs on a GPU: launches are counted on the host and timed by Proton."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from ttools.core.compilation.inspection import Readings
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.gpus.targets import Target
from ttools.core.kernel_selector import kernel_selector
from ttools.core.reports.report import config_text
from ttools.profiler.gpu import proton
from ttools.profiler.gpu.copies import CopyRecorder, OwnCopies
from ttools.profiler.gpu.counted_launches import GpuCounting
from ttools.profiler.gpu.counting_processes import CountingProcesses
from ttools.profiler.gpu.equal_launches import MadeCall
from ttools.profiler.gpu.proton import ProtonOptions
from ttools.profiler.gpu.proton_file import KernelTime, kernel_times
from ttools.profiler.run.origin import Origin, frames_of_proton
from ttools.profiler.run.repetition import ONCE, Repetition, all_warm_up
from ttools.profiler.run.session import OnCounted, Sample
from ttools.profiler.run.trials import Trials


class GpuSession:
    """Records the launches of a run on a GPU.

    Proton's file is not read until `finish`, so that the program continues as soon as Proton has
    ended. Other processes count launches while the program runs; `finish` counts the remaining
    launches.

    Args:
        only: Names of the kernels to profile, or a predicate on names; all by default.
        counts: If False, launches are timed but not counted.
        options: Options of the Proton session.
        keep: Path at which to keep the file that Proton writes; by default it is deleted.
        repetition: Number of repetitions of launches, and number of launches that only warm up.
        trials: If True, trials of autotuners are profiled like other launches.
        target: Target of a later analysis, for which other processes disassemble kernels.

    Attributes:
        scopes: Metrics that the program reported for its scopes.
    """

    timed_on = "the GPU"

    def __init__(
        self,
        only: Sequence[str] | Callable[[str], bool] | None,
        *,
        counts: bool = True,
        options: ProtonOptions | None = None,
        keep: Path | None = None,
        repetition: Repetition = ONCE,
        trials: bool = False,
        target: Target | None = None,
    ) -> None:
        self._trials = Trials()
        self._only, self._keep = None if only is None else kernel_selector(only), keep
        self._options = options or ProtonOptions()
        origin = Origin(self._options.context)
        self.scopes = origin.reported
        # Proton's traces contain the stack of each launch, but its trees of sums do not.
        sums = self._options.data == "tree" and self._options.context == "shadow"
        self._repetition = repetition
        self._own_copies = OwnCopies()
        self._watch = GpuCounting(
            self._only,
            counts=counts,
            origin=origin,
            own_copies=self._own_copies,
            stacks=sums,
            repetition=repetition,
            trials=trials,
            processes=CountingProcesses(),
            target=target,
        )
        self._samples: list[Sample] = []
        #: For each unfinished run: Proton's file, the copies, and the number of launches at its
        #: end.
        self._ended: list[tuple[bytes, CopyRecorder, int]] = []
        self._seen = 0
        self._unseen = ""
        self._lock = threading.RLock()

    @property
    def samples(self) -> list[Sample]:
        """Return the samples of all finished runs, in the order of the launches."""
        return self._samples

    @property
    def trials(self) -> Trials:
        """Return the trials of autotuners that are left out of the samples."""
        return self._trials

    @property
    def seen(self) -> int:
        """Return the number of Triton launches so far, even during the run."""
        return self._watch.made

    @property
    def recorded(self) -> object:
        """Return a value made of the numbers of launches, of unfinished runs and of samples."""
        return self._watch.made, len(self._ended), len(self._samples)

    @property
    def unseen(self) -> str:
        """Return a sentence on GPU time that no figure includes; empty before any run."""
        return self._unseen

    @property
    def notes(self) -> dict[str, str]:
        """Return the reason why launches could not be counted or matched with times, by kernel."""
        return self._watch.notes

    @property
    def overheads(self) -> dict[tuple[str, str], list[float]]:
        """Return the host's overhead of each call in seconds, by kernel and configuration."""
        keys = {
            made.compiled: (made.launch.kernel, config_text(made.config))
            for made in reversed(self._watch.launches)
        }
        return self._watch.calls.grouped(keys.get)

    @property
    def variants(self) -> dict[Any, KernelSource]:
        """Return the specialisations that were launched."""
        return self._watch.variants

    def readings_of(self, source: KernelSource, target: Target) -> Readings | None:
        """Return the facts that another process derives from a kernel; None if it has not begun."""
        return self._watch.readings_of(source, target)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Profile launches during the `with` block."""
        with tempfile.TemporaryDirectory() as folder:
            stem = Path(folder) / "profile"
            copies = CopyRecorder(self._own_copies, backend=self._options.backend)
            try:
                with proton.session(stem, self._options, copies), self._watch.watching():
                    yield
            finally:
                path = self._options.file(stem)
                if path.exists():
                    self._ended.append((path.read_bytes(), copies, self._watch.made))
                    if self._keep is not None:
                        shutil.copyfile(path, self._keep)

    def finish(self, progress: OnCounted = lambda *_: None, *, count: bool = True) -> None:
        """Make samples of the runs that have ended.

        Args:
            progress: Called with the number of kinds of launches counted so far and their total
                number.
            count: If False, launches that are not counted yet stay uncounted.
        """
        with self._lock:
            while self._ended:
                text, copies, made = self._ended[0]
                if count:
                    self._watch.count(progress)
                self._join(kernel_times(text), copies, made)
                self._ended.pop(0)

    def _join(self, times: list[KernelTime], copies: CopyRecorder, until: int) -> None:
        notes = self._watch.notes
        if self._options.context == "python":
            times = [replace(time, stack=frames_of_proton(time.stack)) for time in times]
        made = self._watch.launches[self._seen : until]
        self._seen = until
        of_copies = copies.times(times, summed=self._options.data == "tree")
        times = under_own_names(times, made)
        reason = copies.reason
        if self._only is None:
            times = sorted([*times, *of_copies], key=lambda time: time.begin)
        else:
            times = [time for time in times if self._only(time.kernel)]
            reason = reason or "only selected kernels are profiled"
        self._unseen = idle_sentence(times, reason)
        if self._options.data == "trace":
            self._samples += join(times, made, notes, self._trials)
        else:
            self._samples += join_sums(times, made, notes, self._trials)
        own = {m.launch.kernel for m in made if not m.trial}
        timed = {time.kernel for time in times}
        for kernel in (own & timed) - {s.kernel for s in self._samples}:
            notes.setdefault(kernel, all_warm_up(self._repetition.warmup))


def idle_sentence(times: Sequence[KernelTime], reason: str) -> str:
    """Return a sentence on the GPU's idle time and on operations that were not timed.

    Args:
        times: Times of all kernels of a run, and of all recorded copies and fills.
        reason: Reason why copies and fills were not recorded; empty if they were.
    """
    sentence = (
        "copies and fills of memory are not timed, so no figure includes them" if reason else ""
    )
    sentence += f" ({reason})" if reason else ""
    timed = sorted((time.begin, time.begin + time.seconds) for time in times)
    if not timed or any(time.launches != 1 for time in times):
        return sentence
    idle, reached = 0.0, timed[0][0]
    for begin, end in timed:
        idle += max(0.0, begin - reached)
        reached = max(reached, end)
    whole = reached - timed[0][0]
    duration = f"{idle * 1e3:,.3g} of {whole * 1e3:,.3g} ms ({idle / whole if whole else 0:.0%})"
    if not reason:
        return (
            "between the first and the last kernel, copy or fill, the GPU was idle for "
            f"{duration}, which includes the host's work"
        )
    return (
        f"{sentence}; between the first and the last kernel, no kernel ran for {duration}, which "
        "includes these operations and the host's work"
    )


def under_own_names(times: Sequence[KernelTime], launches: Sequence[MadeCall]) -> list[KernelTime]:
    """Return times under the names of the kernels' functions.

    `@triton.jit(repr=...)` gives the compiled kernel a different name. `launch_metadata` renames a
    launch in Proton's file if any session installs Proton's hook, even one of the program's own
    sessions, because the hook affects all sessions.
    """
    own = {made.launch.kernel for made in launches}
    aliases: dict[str, str] = {}
    for made in launches:
        for name in (made.alias, getattr(made.compiled, "name", "")):
            if name and name not in own:
                aliases.setdefault(name, made.launch.kernel)
    return [
        replace(time, kernel=aliases[time.kernel]) if time.kernel in aliases else time
        for time in times
    ]


def join(
    times: Sequence[KernelTime],
    launches: Sequence[MadeCall],
    notes: dict[str, str],
    trials: Trials,
) -> list[Sample]:
    """Return a sample for each time, with the launch to which it belongs.

    The nth time of a kernel belongs to the kernel's nth launch. If a kernel has more or fewer times
    than launches (because of several streams, or of graphs that torch does not manage), its counts
    are used only if they are equal for all of its launches.

    Args:
        times: Times of all kernels that ran on the GPU, including those of libraries.
        launches: Launches of Triton kernels, in the order of the program.
        notes: Receives the reason why counts could not be used, by kernel.
        trials: Receives trials of autotuners, and the library kernels between them.
    """
    by_name: defaultdict[str, list[MadeCall]] = defaultdict(list)
    for made in launches:
        by_name[made.launch.kernel].append(made)
    numbers = Counter(time.kernel for time in times)
    matched: Counter[str] = Counter()
    samples: list[Sample] = []
    first = times[0].begin if times else 0.0
    tried: dict[str, str] = {}  # for each lane whose latest launch is a trial, its kernel
    between: defaultdict[str, list[Sample]] = defaultdict(list)
    for time in times:
        own = by_name.get(time.kernel, [])
        made = MadeCall()
        if len(own) == numbers[time.kernel]:
            made = own[matched[time.kernel]]
        elif own and all(other.launch == own[0].launch for other in own):
            made = own[0]._replace(warmup=False)
        elif own:
            notes.setdefault(
                time.kernel,
                f"there are {len(own)} launches but {numbers[time.kernel]} times, so counts are "
                "left out",
            )
        if own and len(own) != numbers[time.kernel] and any(other.trial for other in own):
            # This is certainly a trial only if all launches of the kernel are trials.
            made = made._replace(trial=all(other.trial for other in own))
            if not made.trial:
                notes.setdefault(time.kernel, _MIXED)
        matched[time.kernel] += 1
        sample = _sample(replace(time, begin=time.begin - first), made)
        if not own:
            # The trials end when the autotuner launches the configuration that it has chosen.
            (between[time.lane] if time.lane in tried else samples).append(sample)
            continue
        left, kernel = between.pop(time.lane, []), tried.pop(time.lane, "")
        if made.trial or time.kernel == kernel:
            trials.add(left, libraries=True)
        else:  # another kernel was launched, so the earlier trials had ended
            samples += left
        if made.trial:
            trials.add([sample])
            tried[time.lane] = time.kernel
        elif not made.warmup:
            samples.append(sample)
    return sorted(chain(samples, *between.values()), key=lambda sample: sample.begin)


_MIXED = (
    "an autotuner's trials cannot be distinguished from its other launches, so all are shown; "
    "data='trace' without CUDA graphs times them separately"
)


def join_sums(
    times: Sequence[KernelTime],
    launches: Sequence[MadeCall],
    notes: dict[str, str],
    trials: Trials,
) -> list[Sample]:
    """Return a sample for each sum of times, with the launches to which it belongs.

    The launches of a kernel in one scope were timed together. If these launches are equal, the
    sample has their counts. Sums that consist only of trials are left out.
    """
    groups: defaultdict[tuple[str, tuple[str, ...]], list[MadeCall]] = defaultdict(list)
    every: defaultdict[str, list[MadeCall]] = defaultdict(list)
    for made in launches:
        groups[made.launch.kernel, made.stack].append(made)
        every[made.launch.kernel].append(made)
    samples = []
    for time in times:
        # Launches without a recorded stack are assumed to be in every scope of the kernel.
        own = groups.get((time.kernel, time.stack), every[time.kernel])
        if own and all(other.trial for other in own):
            trials.add([_sample(time, own[0])])
            continue
        if any(other.trial for other in own):
            notes.setdefault(time.kernel, _MIXED)
        alike = bool(own) and all(
            (other.launch, other.config) == (own[0].launch, own[0].config) for other in own
        )
        if own and not alike:
            notes.setdefault(
                time.kernel,
                "its launches differ and were timed together, so counts are left out; "
                "data='trace' times them separately",
            )
        made = own[0] if alike else MadeCall()
        metrics: Counter[str] = Counter()
        for other in own if len(own) == time.launches else ():
            metrics.update(other.metrics)
        samples.append(_sample(time, made._replace(metrics=dict(metrics))))
    return samples


def _sample(time: KernelTime, made: MadeCall) -> Sample:
    return Sample(
        kernel=time.kernel,
        launch=made.spec,
        seconds=time.seconds,
        counts=made.launch.counts,
        begin=time.begin,
        lane=time.lane,
        stack=time.stack,
        metrics=made.metrics if time.nbytes is None else {"flops": 0.0, "bytes": time.nbytes},
        source=made.launch.source,
        launches=time.launches,
        kind=time.kind,
        variant=None if made.compiled is None else made.compiled.src,
    )
