"""One launch under the checks: which instruments, how often it runs, what the records say.

Must not know what came of other launches, nor how findings are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial

from ttools.core.errors import KernelError
from ttools.core.findings import Finding
from ttools.core.location import SourceLocation
from ttools.interpreter.emit.module import Instruments
from ttools.interpreter.ir import Module
from ttools.interpreter.launch import LaunchOptions, LaunchReport
from ttools.interpreter.monitor import Count, Monitor
from ttools.interpreter.observation import ObservedLaunch
from ttools.interpreter.region import ANYWHERE, Region, region_of
from ttools.sanitizer.checks.check_findings import (
    argument_findings,
    check_findings,
    unjudged,
    unused_load_notes,
)
from ttools.sanitizer.checks.deadlock import (
    co_residency_finding,
    deadlock_finding,
    doubtful,
    lock_order_findings,
)
from ttools.sanitizer.checks.memcheck import memory_findings
from ttools.sanitizer.checks.racecheck import identical, overwritten_findings, race_findings
from ttools.sanitizer.memory.addresses import AddressBook, Addresses
from ttools.sanitizer.memory.shadows import LaunchShadows
from ttools.sanitizer.memory.uninitialised import UninitialisedMemory
from ttools.sanitizer.options import SanitizeOptions
from ttools.sanitizer.planner import Planner
from ttools.sanitizer.races import Records
from ttools.sanitizer.replay import (
    changing_stores,
    in_another_order,
    on_one_thread,
    snapshot_before,
    touches,
)
from ttools.sanitizer.subject import Subject

_NONE: frozenset[int] = frozenset()
#: So many programs of a kernel whose programs wait run at once, whatever the host has: neighbours
#: may count on each other, and who needs more of them is found on every machine.
_SIDE_BY_SIDE = 2


@lru_cache(maxsize=1024)
def _instruments(races: bool, synchronised: bool, names: tuple[str, ...]) -> Instruments:
    """Equal launches get the same object, by which their native code is found."""
    return Instruments(guards=True, footprints=races, synchronised=synchronised, rewrites=names)


class CheckedLaunch:
    """A launch that is to run under the checks.

    Args:
        launch: what runs.
        options: what is checked.
        book: the addresses that the run knows.
        planner: chooses the passes that rewrite the kernel.
        memory: knows which memory nobody has written.

    Attributes:
        findings: what `run` found.
        monitor: what was observed when the programs ran in their own order.
    """

    def __init__(
        self,
        launch: ObservedLaunch,
        options: SanitizeOptions,
        book: AddressBook,
        planner: Planner,
        memory: UninitialisedMemory,
    ) -> None:
        self.launch, self.options, self.planner = launch, options, planner
        self.findings: list[Finding] = []
        self.monitor: Monitor | None = None
        self._book = book
        self._subject: Subject | None = None
        self._addresses: Addresses | None = None
        checks = options.checks
        self._judges_views = options.view_bounds != "off" and "memcheck" in checks
        self.regions = planner.regions(launch, self._region)
        races = "racecheck" in checks
        self._shadows: LaunchShadows | None = None
        unwritten: tuple[frozenset[int], frozenset[int], bool] = (_NONE, _NONE, False)
        if "initcheck" in checks:
            shadows = LaunchShadows(launch, self.regions, planner, memory, book)
            unwritten = shadows.tracked, shadows.carriers, shadows.by_address
            self._shadows = shadows
        self.rewrites = planner.plan(launch, checks, *unwritten)
        synchronised = races and launch.variants.synchronises
        self.instruments = _instruments(races, synchronised, self.rewrites.names)
        #: Whether there may be findings although no access or check has failed.
        self._judges_more = races or "hints" in checks or bool(self.rewrites.passes)

    # Few launches have findings: what describes them is not made for each.
    @property
    def subject(self) -> Subject:
        """The launch as findings describe it."""
        if self._subject is None:
            self._subject = Subject.of(self.launch)
        return self._subject

    @property
    def addresses(self) -> Addresses:
        """What is known of addresses."""
        if self._addresses is None:
            self._addresses = Addresses(self.regions, self._book)
        return self._addresses

    def _region(self, index: int) -> Region:
        argument, value = self.launch.arguments[index], self.launch.values[index]
        known = region_of(argument, value, judges_view=self._judges_views)
        if known is not None:
            return known
        address = self.launch.raw_parameters[index]
        for start, end in self._book.live():
            if start <= address < end:
                return Region((start, end), (start, end), judges_view=False)
        return ANYWHERE

    def run(self) -> LaunchReport:
        """Runs the launch and judges what it did.

        Raises:
            TtoolsError: as the launch would without checks, except for a deadlock.
        """
        before = None
        if self.instruments.synchronised:
            before = snapshot_before(self.launch, self.planner.reads(self.launch))
        options, hangs = self.launch.run.launch_options, False
        natural = options
        if "deadlock" in self.options.checks and self.planner.waits(self.launch):
            natural = replace(options, threads=_SIDE_BY_SIDE)
        try:
            self._execute(natural)
            report = self._report
        except KeyboardInterrupt:
            self._judge_so_far()
            raise
        except KernelError as error:
            if error.kind != "deadlock" or "deadlock" not in self.options.checks:
                self._judge_so_far()
                raise
            self.findings.append(deadlock_finding(error, self.subject, self.launch))
            report, hangs = LaunchReport(0, 0.0), True
        monitor = self.launch.monitor
        assert monitor is not None
        self.monitor = monitor
        if self._judges_more or monitor.fails:
            self.findings += self._judge(monitor)
        if hangs and any(finding.kind.startswith("oob_") for finding in self.findings):
            self.findings[0] = doubtful(self.findings[0])
        if before is not None:
            other = replace(options, order="random", seed=self.options.seed)
            if hangs:
                # Who came too late may come first: waiting may be all that ordered them.
                other = replace(options, order="reverse")
            observed = in_another_order(self.launch, before, other, self._execute)
            if observed is not None:
                self.findings += self._only_then(observed, other)
        if report.warnings and "deadlock" in self.options.checks:
            self.findings += (
                co_residency_finding(warning, self.subject, self.launch)
                for warning in report.warnings
            )
            report = replace(report, warnings=())
        if "memcheck" in self.options.checks and (unused := self.planner.unused_loads(self.launch)):
            self.findings += unused_load_notes(unused, self.subject)
        return report

    def _judge_so_far(self) -> None:
        """Keeps what accesses and checks have told of a launch that did not end by itself."""
        monitor = self.launch.monitor
        if monitor is not None and monitor.fails:
            self.findings += self._accesses(monitor.counts())

    def _execute(self, options: LaunchOptions) -> None:
        shadows = self._shadows
        self._report = self.launch.execute(
            self.instruments,
            regions=self.regions,
            allocations=self._allocations,
            rewrite=self._rewrite if self.rewrites.passes else None,
            hidden=() if shadows is None else shadows.hidden(self.rewrites.hidden),
            options=options,
        )

    def _allocations(self) -> Sequence[tuple[int, int]]:
        return self.addresses.allocations()

    def _rewrite(self, module: Module) -> None:
        self.planner.rewrite(self.launch, self.rewrites, module)

    def _accesses(self, counts: Sequence[Count]) -> Iterator[Finding]:
        if counts and "memcheck" in self.options.checks:
            yield from memory_findings(
                counts,
                self.subject,
                self.regions,
                self.addresses,
                self.options.view_bounds,
                self._table_of,
                partial(self.planner.index_of, self.launch),
            )
        if counts:
            yield from check_findings(counts, self.subject)

    def _judge(self, monitor: Monitor) -> Iterator[Finding]:
        counts = monitor.counts()
        yield from self._accesses(counts)
        if "hints" in self.options.checks:
            promises, values = self.planner.promises(self.launch), self.launch.raw_parameters
            if any(values[each.parameter] % each.divisor for each in promises):
                # Copies of device memory may lie at other addresses.
                values = self.launch.plan.pack(self.launch.arguments, guarded=True)
                yield from argument_findings(promises, values, self.subject)
        notes = self.planner.notes(self.launch, self.rewrites)
        yield from unjudged(notes, self.subject)
        if "racecheck" in self.options.checks:
            yield from overwritten_findings(self._undisturbed(counts), self.subject)
            if "deadlock" in self.options.checks and self.instruments.synchronised:
                yield from lock_order_findings(monitor, self.subject, self.launch, self.addresses)
            yield from self._races(monitor)

    def _undisturbed(self, counts: Sequence[Count]) -> Sequence[Count]:
        """The same, with lanes that overwrite each other as no other program disturbs them."""
        if all(count.witness.test != "overwritten" for count in counts):
            return counts
        alone = on_one_thread(self.launch, self._execute)
        return counts if alone is None else alone.counts()

    def _races(self, monitor: Monitor) -> Iterator[Finding]:
        weak = partial(self.planner.weak_atomics, self.launch)
        found = list(race_findings(monitor, self.subject, self.addresses, self._table_of, weak))
        # Stores that conflict with loads too depend on the order, whatever they store.
        racing = {finding.argument for conflict, finding in found if conflict.kind == "race"}
        changing: Records | None = None
        if any(c.overlaps is not None and f.argument not in racing for c, f in found):
            changing = changing_stores(self.launch, self.regions, self.addresses)
        for conflict, finding in found:
            overlaps = conflict.overlaps
            if changing is not None and overlaps is not None and finding.argument not in racing:
                yield finding if touches(changing, overlaps) else identical(finding)
            else:
                yield finding

    def _table_of(self, location: SourceLocation | None) -> int:
        return self.planner.table_of(self.launch, location)

    def _only_then(self, monitor: Monitor, options: LaunchOptions) -> Iterator[Finding]:
        """Races that only another order of the programs shows."""
        known = {(finding.kind, finding.location) for finding in self.findings}
        for finding in self._races(monitor):
            if (finding.kind, finding.location) not in known:
                seed = f" (seed {options.seed})" if options.order == "random" else ""
                note = f"seen when the programs run in {options.order} order{seed}"
                yield replace(finding, notes=(*finding.notes, note))
