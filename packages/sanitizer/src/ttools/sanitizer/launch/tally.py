"""The launches of one process so far: what ran, what was cut short, and what has not ended."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from ttools.core.findings.findings import Finding, TallyEntry, Unfinished, merge_in_launch
from ttools.core.process.phases import Work
from ttools.core.spec import CallSite, LaunchSpec
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.sanitizer.launch.checked import CheckedLaunch
from ttools.sanitizer.launch.stopped import unfinished

#: Extents of the grid of a launch whose kernel was not compiled.
_NO_GRID = 0, 0, 0


class Tally:
    """Counts launches, equal ones together.

    Args:
        checks: names of the checks of the run.
    """

    def __init__(self, checks: Sequence[str]) -> None:
        self._checks = checks
        self._lock = threading.Lock()
        #: By what equal launches have in common: how many there were, and their seconds.
        self._counts: dict[object, tuple[TallyEntry, int, float]] = {}
        #: By the same: why some of them were not checked to their end.
        self._unfinished: defaultdict[object, list[Unfinished]] = defaultdict(list)
        #: Works that have not ended, and their launches unless a kernel is still being compiled.
        self._running: dict[int, tuple[Work, CheckedLaunch | None]] = {}
        self._begun: Counter[str] = Counter()

    def begin(
        self, kernel: str, seconds: float | None, phase: str, checked: CheckedLaunch | None = None
    ) -> Work:
        """Makes what follows, up to `end`, the work of this thread on the next launch of a kernel.

        Args:
            kernel: name of the kernel.
            seconds: the most that each phase may take; None for any time.
            phase: name of the first phase.
            checked: the launch, which counts as begun then.
        """
        number = self._begun[kernel] + 1
        if checked is not None:
            self._begun[kernel] = number
        work = Work(kernel, number, seconds, phase)
        self._running[id(work)] = work, checked
        return work.__enter__()

    def end(self, work: Work) -> None:
        """Ends a work that was begun."""
        work.__exit__()
        self._running.pop(id(work), None)

    def count(self, launch: KernelLaunch, checked: CheckedLaunch) -> None:
        """Counts a launch that has ended."""
        config = None if launch.site.config is None else repr(launch.site.config)
        key = (launch.kernel.name, tuple(launch.grid), launch.site.line, config)
        with self._lock:
            entry, count, seconds = self._counts.get(key) or (
                TallyEntry(spec=launch.signature),
                0,
                0.0,
            )
            self._counts[key] = entry, count + 1, seconds + checked.report.seconds
            if checked.unfinished is not None:
                self._unfinished[key].append(checked.unfinished)

    def count_uncompiled(self, kernel: str, line: str | None, why: Unfinished) -> None:
        """Counts a launch that was not made, as the compilation of its kernel was stopped."""
        self._begun[kernel] += 1
        key = kernel, _NO_GRID, line
        with self._lock:
            spec = LaunchSpec(kernel=kernel, grid=_NO_GRID, site=CallSite(line=line))
            entry = TallyEntry(spec=spec)
            _, count, seconds = self._counts.get(key) or (entry, 0, 0.0)
            self._counts[key] = entry, count + 1, seconds
            self._unfinished[key].append(why)

    @property
    def entries(self) -> list[TallyEntry]:
        """The launches, those that have not ended last."""
        with self._lock:
            entries = [
                replace(each, count=n, seconds=s, unfinished=tuple(self._unfinished.get(key, ())))
                for key, (each, n, s) in self._counts.items()
            ]
        for work, checked in list(self._running.values()):
            pending = self._checks if checked is None else checked.pending
            record = unfinished(work, None, pending)
            spec = LaunchSpec(kernel=work.kernel, grid=_NO_GRID)
            if checked is not None:
                spec = checked.launch.signature
            entries.append(TallyEntry(spec=spec, unfinished=(record,)))
        return entries

    @property
    def findings(self) -> list[Finding]:
        """What was found so far in launches that have not ended."""
        running = [checked for _, checked in list(self._running.values()) if checked is not None]
        return [each for checked in running for each in merge_in_launch(list(checked.findings))]


def united(entries: Sequence[TallyEntry]) -> list[TallyEntry]:
    """Equal launches of several processes together."""
    together: dict[object, TallyEntry] = {}
    for each in entries:
        key = (each.spec.kernel, each.spec.grid, each.spec.site.line, repr(each.spec.site.config))
        first = together.setdefault(key, each)
        if first is not each:
            together[key] = replace(
                first,
                count=first.count + each.count,
                seconds=first.seconds + each.seconds,
                unfinished=(*first.unfinished, *each.unfinished),
            )
    return list(together.values())
