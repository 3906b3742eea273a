"""A sanitizer run: the instruments it switches on at each launch, and the findings they make.

Owns the life of the checks. Must not know how findings are written.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace

from ttools.core.errors import KernelError
from ttools.core.findings import Finding, LaunchEntry, merge
from ttools.core.reports.tensor_map import TensorMap
from ttools.interpreter.emit.module import Instruments
from ttools.interpreter.launch import LaunchReport
from ttools.interpreter.monitor import Monitor
from ttools.interpreter.observation import ObservedLaunch
from ttools.interpreter.region import NOWHERE, Region, region_of
from ttools.sanitizer.addresses import AddressBook, Addresses
from ttools.sanitizer.deadlock import co_residency_finding, deadlock_finding
from ttools.sanitizer.memory import memory_findings
from ttools.sanitizer.options import SanitizeOptions
from ttools.sanitizer.race_findings import race_findings
from ttools.sanitizer.subject import Subject


class Session:
    """Everything one run owns; entered by `ttools.sanitizer.sanitize`.

    Attributes:
        options: what is checked.
        findings: merged by site, in order of appearance.
        launches: what ran.
        maps: which programs touched what of the tensors that findings concern.
    """

    def __init__(self, options: SanitizeOptions) -> None:
        self.options = options
        self.findings: list[Finding] = []
        self.launches: list[LaunchEntry] = []
        self.maps: list[TensorMap] = []
        self._lock = threading.Lock()
        self._book = AddressBook()
        self._watches = ExitStack()
        self._entered = 0

    # ---- while the run is active
    def __enter__(self) -> Session:
        if self._entered == 0:
            self._watches.enter_context(self._book.watching())
        self._entered += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._entered -= 1
        if self._entered == 0:
            self._watches.close()

    def launch(self, launch: ObservedLaunch) -> LaunchReport:
        """Runs a launch under the checks; see `ttools.interpreter.observation`."""
        subject = Subject.of(launch)
        regions = self._regions(launch)
        addresses = Addresses(regions, self._book)
        instruments = self._instruments(launch)
        try:
            report = launch.execute(
                instruments, regions=regions, allocations=addresses.allocations()
            )
        except KernelError as error:
            if error.kind != "deadlock" or "deadlock" not in self.options.checks:
                raise
            self._add([deadlock_finding(error, subject)])
            report = LaunchReport(0, 0.0)
        monitor = launch.monitor
        assert monitor is not None
        self._add(self._judge(monitor, subject, regions, addresses))
        if "deadlock" in self.options.checks:
            self._add(co_residency_finding(w, subject) for w in report.warnings)
            report = replace(report, warnings=())
        self._count(subject, report)
        return report

    def _instruments(self, launch: ObservedLaunch) -> Instruments:
        races = "racecheck" in self.options.checks
        return Instruments(
            guards=True,
            footprints=races,
            synchronised=races and launch.variants.synchronises,
        )

    def _regions(self, launch: ObservedLaunch) -> list[Region]:
        judges = self.options.view_bounds != "off" and "memcheck" in self.options.checks
        return [
            (region_of(argument, value, judges_view=judges) or NOWHERE)
            if index in launch.plan.pointers
            else NOWHERE
            for index, (argument, value) in enumerate(
                zip(launch.arguments, launch.values, strict=True)
            )
        ]

    def _judge(
        self, monitor: Monitor, subject: Subject, regions: list[Region], addresses: Addresses
    ) -> Iterator[Finding]:
        checks = self.options.checks
        if "memcheck" in checks:
            yield from memory_findings(
                monitor.counts(), subject, regions, addresses, self.options.view_bounds
            )
        if "racecheck" in checks:
            for _, finding in race_findings(monitor, subject, addresses):
                yield finding

    # ---- what it leaves
    def _add(self, findings: Iterable[Finding]) -> None:
        found = list(findings)
        with self._lock:
            self.findings = merge([*self.findings, *found])[: self.options.max_findings]

    def _count(self, subject: Subject, report: LaunchReport) -> None:
        entry = LaunchEntry(
            kernel=subject.kernel,
            grid=subject.grid,
            seconds=report.seconds,
            location=subject.host_line,
            config=subject.config,
        )
        with self._lock:
            for n, known in enumerate(self.launches):
                same = (known.kernel, known.grid, known.location, known.config)
                if same == (entry.kernel, entry.grid, entry.location, entry.config):
                    self.launches[n] = LaunchEntry(
                        kernel=known.kernel,
                        grid=known.grid,
                        count=known.count + 1,
                        seconds=known.seconds + entry.seconds,
                        location=known.location,
                        config=known.config,
                    )
                    return
            self.launches.append(entry)
