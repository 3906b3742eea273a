"""Counts the launches of one process that ran, that were stopped early, or that have not ended."""

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
from ttools.sanitizer.launch.stopped_launches import unfinished

#: Used as the grid of a launch whose kernel was not compiled.
_NO_GRID = 0, 0, 0


class Tally:
    """Counts launches by launch signature.

    Args:
        checks: Names of the checks of the run.
    """

    def __init__(self, checks: Sequence[str]) -> None:
        self._checks = checks
        self._lock = threading.Lock()
        #: Number of launches and their total seconds, by launch signature.
        self._counts: dict[object, tuple[TallyEntry, int, float]] = {}
        #: Reasons why launches were not checked completely, by launch signature.
        self._unfinished: defaultdict[object, list[Unfinished]] = defaultdict(list)
        #: The current work of all threads, with its launch; None while a kernel is being compiled.
        self._running: dict[Work, CheckedLaunch | None] = {}
        self._begun: Counter[str] = Counter()

    def begin(
        self, kernel: str, seconds: float | None, phase: str, checked: CheckedLaunch | None = None
    ) -> Work:
        """Begin the next launch of a kernel as the work of this thread, until `end` is called.

        Args:
            kernel: Name of the kernel.
            seconds: Time limit of each phase; None for no limit.
            phase: Name of the first phase.
            checked: The launch; None while its kernel is being compiled; such a launch does not
                count as begun.
        """
        number = self._begun[kernel] + 1
        if checked is not None:
            self._begun[kernel] = number
        work = Work(kernel, number, seconds, phase)
        self._running[work] = checked
        return work.__enter__()

    def end(self, work: Work) -> None:
        """End the work that `begin` returned."""
        work.__exit__()
        self._running.pop(work, None)

    def count(self, launch: KernelLaunch, checked: CheckedLaunch) -> None:
        """Count a launch that has ended."""
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
        """Count a launch that was not made because the compilation of its kernel was stopped."""
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
        """Return the launches; those that have not ended come last."""
        with self._lock:
            entries = [
                replace(entry, count=n, seconds=s, unfinished=tuple(self._unfinished.get(key, ())))
                for key, (entry, n, s) in self._counts.items()
            ]
        for work, checked in list(self._running.items()):
            pending = self._checks if checked is None else checked.pending
            record = unfinished(work, None, pending)
            spec = LaunchSpec(kernel=work.kernel, grid=_NO_GRID)
            if checked is not None:
                spec = checked.launch.signature
            entries.append(TallyEntry(spec=spec, unfinished=(record,)))
        return entries

    @property
    def findings(self) -> list[Finding]:
        """Return the findings so far of launches that have not ended."""
        running = [checked for checked in list(self._running.values()) if checked is not None]
        return [
            finding for checked in running for finding in merge_in_launch(list(checked.findings))
        ]


def united(entries: Sequence[TallyEntry]) -> list[TallyEntry]:
    """Merge the entries of equal launches in several processes."""
    together: dict[object, TallyEntry] = {}
    for entry in entries:
        key = (
            entry.spec.kernel,
            entry.spec.grid,
            entry.spec.site.line,
            repr(entry.spec.site.config),
        )
        first = together.setdefault(key, entry)
        if first is not entry:
            together[key] = replace(
                first,
                count=first.count + entry.count,
                seconds=first.seconds + entry.seconds,
                unfinished=(*first.unfinished, *entry.unfinished),
            )
    return list(together.values())
