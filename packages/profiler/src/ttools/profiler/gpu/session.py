"""One profiled run on a GPU: launches counted on the host, timed by Proton.

Owns the joining of the two.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from ttools.core.compilation.inspection import Readings
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.gpus.targets import Target
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
    """Samples of a run on a GPU.

    The program goes on as soon as Proton has ended; reading Proton's file waits for `finish`, and
    so does counting on a machine with few processors. On others, processes count while the program
    runs.

    Args:
        only: names of the kernels to profile; all by default.
        counts: whether to count what launches do.
        keep: where to keep the file that Proton writes.
        repetition: how often launches are made, and which of them only warm up.
        trials: whether trials of autotuners are launches like others.
        target: What kernels will be analysed for; None for nothing.

    Attributes:
        scopes: what the program reported of its scopes.
    """

    timed_on = "the GPU"

    def __init__(
        self,
        only: Sequence[str] | None,
        *,
        counts: bool = True,
        options: ProtonOptions | None = None,
        keep: Path | None = None,
        repetition: Repetition = ONCE,
        trials: bool = False,
        target: Target | None = None,
    ) -> None:
        self._trials = Trials()
        self._only, self._keep = only, keep
        self._options = options or ProtonOptions()
        origin = Origin(self._options.context)
        self.scopes = origin.reported
        # Proton's trace has the stack of each launch.
        sums = self._options.data == "tree" and self._options.context == "shadow"
        self._repetition = repetition
        self._own_copies = OwnCopies()
        self._watch = GpuCounting(
            only,
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
        #: Of runs that ended and were not looked at: Proton's file, its copies, and the number of
        #: launches at its end.
        self._ended: list[tuple[bytes, CopyRecorder, int]] = []
        self._seen = 0
        self._unseen = ""
        self._lock = threading.RLock()

    @property
    def samples(self) -> list[Sample]:
        """Samples in the order of the launches, of runs that are finished."""
        return self._samples

    @property
    def trials(self) -> Trials:
        """What was left out because autotuners only tried configurations."""
        return self._trials

    @property
    def seen(self) -> int:
        """How many launches of Triton's were made so far, also while the run lasts."""
        return self._watch.made

    @property
    def recorded(self) -> object:
        """How many runs and launches there are, and how many are samples."""
        return self._watch.made, len(self._ended), len(self._samples)

    @property
    def unseen(self) -> str:
        """What takes time on the GPU and is in no figure, in a sentence; empty before any run."""
        return self._unseen

    @property
    def notes(self) -> dict[str, str]:
        """What could not be counted or joined, by kernel."""
        return self._watch.notes

    @property
    def overheads(self) -> dict[tuple[str, str], list[float]]:
        """Seconds that the host took to launch each kernel and configuration."""
        keys = {
            made.compiled: (made.launch.kernel, config_text(made.config))
            for made in reversed(self._watch.launches)
        }
        return self._watch.calls.grouped(keys.get)

    @property
    def variants(self) -> dict[Any, KernelSource]:
        """The specialisations that were launched."""
        return self._watch.variants

    def readings_of(self, source: KernelSource, target: Target) -> Readings | None:
        """Return what another process reads off a kernel; None if it has not begun to."""
        return self._watch.readings_of(source, target)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Profiles what is launched while the context lasts."""
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
            progress: Is called with how many kinds of launches were counted, and of how many.
            count: False leaves out launches that are not counted yet.
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
            times = [replace(each, stack=frames_of_proton(each.stack)) for each in times]
        made = self._watch.launches[self._seen : until]
        self._seen = until
        of_copies = copies.times(times, summed=self._options.data == "tree")
        times = under_own_names(times, made)
        reason = copies.reason
        if self._only is None:
            times = sorted([*times, *of_copies], key=lambda each: each.begin)
        else:
            times = [each for each in times if each.kernel in self._only]
            reason = reason or "only chosen kernels are shown"
        self._unseen = said_of_copies(times, reason)
        if self._options.data == "trace":
            self._samples += join(times, made, notes, self._trials)
        else:
            self._samples += join_sums(times, made, notes, self._trials)
        own = {m.launch.kernel for m in made if not m.trial}
        timed = {each.kernel for each in times}
        for kernel in (own & timed) - {s.kernel for s in self._samples}:
            notes.setdefault(kernel, all_warm_up(self._repetition.warmup))


def said_of_copies(times: Sequence[KernelTime], reason: str) -> str:
    """Return a sentence on what is not timed, and how much time nothing ran that is.

    Args:
        times: All kernels of a run, and all copies and fills that were recorded.
        reason: Why copies and fills were not recorded; empty if they were.
    """
    said = "copies and fills of memory are not timed, so they are in no figure" if reason else ""
    said += f" ({reason})" if reason else ""
    timed = sorted((each.begin, each.begin + each.seconds) for each in times)
    if not timed or any(each.launches != 1 for each in times):
        return said
    idle, reached = 0.0, timed[0][0]
    for begin, end in timed:
        idle += max(0.0, begin - reached)
        reached = max(reached, end)
    whole = reached - timed[0][0]
    for_so_long = f"{idle * 1e3:,.3g} of {whole * 1e3:,.3g} ms ({idle / whole if whole else 0:.0%})"
    if not reason:
        return (
            "from the first kernel, copy or fill to the last the GPU did nothing for "
            f"{for_so_long}, in which the host's work is"
        )
    return (
        f"{said}; from the first kernel to the last no kernel ran for {for_so_long}, in which "
        "they and the host's work are"
    )


def under_own_names(times: Sequence[KernelTime], launches: Sequence[MadeCall]) -> list[KernelTime]:
    """Times with the names of functions, where kernels or their launches are called otherwise.

    `@triton.jit(repr=...)` names what is compiled. What `launch_metadata` names a launch is in
    Proton's files where a session has the hook, be it one of the program's: all sessions hear it.
    """
    own = {made.launch.kernel for made in launches}
    aliases: dict[str, str] = {}
    for made in launches:
        for name in (made.alias, getattr(made.compiled, "name", "")):
            if name and name not in own:
                aliases.setdefault(name, made.launch.kernel)
    return [
        replace(each, kernel=aliases[each.kernel]) if each.kernel in aliases else each
        for each in times
    ]


def join(
    times: Sequence[KernelTime],
    launches: Sequence[MadeCall],
    notes: dict[str, str],
    trials: Trials,
) -> list[Sample]:
    """Gives each time the counts of its launch: of one name, the first belongs to the first.

    Where a kernel has more or fewer times than launches (launches on several streams, graphs that
    torch does not know), its counts are used only if they are all the same.

    Args:
        times: of all kernels that ran on the GPU, those of libraries included.
        launches: that Triton made.
        notes: takes a sentence for each kernel whose counts could not be joined.
        trials: takes what autotuners only tried, and what ran between that.
    """
    by_name: defaultdict[str, list[MadeCall]] = defaultdict(list)
    for made in launches:
        by_name[made.launch.kernel].append(made)
    numbers = Counter(each.kernel for each in times)
    seen: Counter[str] = Counter()
    samples: list[Sample] = []
    first = times[0].begin if times else 0.0
    tried: dict[str, str] = {}  # by lane, the kernel of the latest launch if that is a trial
    between: defaultdict[str, list[Sample]] = defaultdict(list)
    for each in times:
        own = by_name.get(each.kernel, [])
        made = MadeCall()
        if len(own) == numbers[each.kernel]:
            made = own[seen[each.kernel]]
        elif own and all(other.launch == own[0].launch for other in own):
            made = own[0]._replace(warmup=False)
        elif own:
            notes.setdefault(
                each.kernel,
                f"{len(own)} launches but {numbers[each.kernel]} times, so counts are left out",
            )
        if own and len(own) != numbers[each.kernel] and any(other.trial for other in own):
            # Only if all are trials this one is known to be.
            made = made._replace(trial=all(other.trial for other in own))
            if not made.trial:
                notes.setdefault(each.kernel, _MIXED)
        seen[each.kernel] += 1
        sample = _sample(replace(each, begin=each.begin - first), made)
        if not own:
            # The program goes on when its autotuner has launched the configuration it chose.
            (between[each.lane] if each.lane in tried else samples).append(sample)
            continue
        left, kernel = between.pop(each.lane, []), tried.pop(each.lane, "")
        if made.trial or each.kernel == kernel:
            trials.add(left, libraries=True)
        else:  # it did not come to that
            samples += left
        if made.trial:
            trials.add([sample])
            tried[each.lane] = each.kernel
        elif not made.warmup:
            samples.append(sample)
    return sorted(chain(samples, *between.values()), key=lambda sample: sample.begin)


_MIXED = (
    "an autotuner's trials cannot be distinguished from its other launches, so all are shown; "
    "data='trace' without CUDA graphs times them apart"
)


def join_sums(
    times: Sequence[KernelTime],
    launches: Sequence[MadeCall],
    notes: dict[str, str],
    trials: Trials,
) -> list[Sample]:
    """The same for times that are sums: launches of a kernel in one scope count as their mean does.

    Where they do different things, or more of them were made than timed, counts are left out. Sums
    of trials only are left out, too.
    """
    groups: defaultdict[tuple[str, tuple[str, ...]], list[MadeCall]] = defaultdict(list)
    every: defaultdict[str, list[MadeCall]] = defaultdict(list)
    for made in launches:
        groups[made.launch.kernel, made.stack].append(made)
        every[made.launch.kernel].append(made)
    samples = []
    for each in times:
        # Where the stack was not noted, all launches of the kernel stand for each scope's.
        own = groups.get((each.kernel, each.stack), every[each.kernel])
        if own and all(other.trial for other in own):
            trials.add([_sample(each, own[0])])
            continue
        if any(other.trial for other in own):
            notes.setdefault(each.kernel, _MIXED)
        alike = bool(own) and all(
            (other.launch, other.config) == (own[0].launch, own[0].config) for other in own
        )
        if own and not alike:
            notes.setdefault(
                each.kernel,
                "its launches differ and were timed together, so counts are left out; "
                "data='trace' times them apart",
            )
        made = own[0] if alike else MadeCall()
        metrics: Counter[str] = Counter()
        for other in own if len(own) == each.launches else ():
            metrics.update(other.metrics)
        samples.append(_sample(each, made._replace(metrics=dict(metrics))))
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
