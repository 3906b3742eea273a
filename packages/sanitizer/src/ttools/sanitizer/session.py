"""A sanitizer run: observes launches, has them checked, and collects their findings.

A session is active between the entry and the exit of `sanitize()`. It owns the state of the run:
the addresses of tensors, the record of unwritten memory, the findings, and the counts of launches.
In a child process, the session writes its findings to a folder, from which the session of the
parent process reads them.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ttools.core.device_map.graphs.capture import capturing
from ttools.core.errors import KernelError
from ttools.core.findings.findings import Finding, TallyEntry, merge, merge_in_launch
from ttools.core.process.host_line import host_callers, host_line
from ttools.core.process.phases import PhaseStopped, Work
from ttools.core.reports.accuracy import LineErrors, OutputAccuracy
from ttools.core.reports.report import counted
from ttools.core.reports.tensor_map import TensorMap
from ttools.core.spec import CallSite
from ttools.interpreter.run.address_book import AddressBook
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.interpreter.run.tuned_launch import TunedCall, run_first
from ttools.interpreter.runtime.launch import LaunchReport
from ttools.interpreter.runtime.stopping import wait_for_the_end
from ttools.sanitizer.access_maps import MAPS_KEPT, tensor_maps
from ttools.sanitizer.accuracy.record import AccuracyRecord
from ttools.sanitizer.all_configs import AllConfigs
from ttools.sanitizer.analysis.kernel_facts import KernelFactsTable
from ttools.sanitizer.checking import ChosenChecks
from ttools.sanitizer.checks.launch_rules import GpuRules, tuned_in_capture
from ttools.sanitizer.checks.memcheck import Memcheck
from ttools.sanitizer.checks.registry import CHECKS
from ttools.sanitizer.checks.reproducibility import Reproducibility
from ttools.sanitizer.children.reading import Children, Folder
from ttools.sanitizer.derived_constants import DerivedConstants
from ttools.sanitizer.launch.checked import CheckedLaunch
from ttools.sanitizer.launch.launch_tally import Tally, united
from ttools.sanitizer.launch.options import SanitizeOptions
from ttools.sanitizer.launch.stopped_launches import NOT_MADE, cut_short, phase_finding, unfinished
from ttools.sanitizer.memory.launch_state import lent_to_host, tensors_among
from ttools.sanitizer.memory.outputs import UnwrittenOutputs
from ttools.sanitizer.memory.uninitialised import UninitialisedMemory
from ttools.sanitizer.not_restored import Restoring, tuned_launch
from ttools.sanitizer.pruned_configs import PrunedConfigs, explained
from ttools.sanitizer.saved_tensors import SavedTensors
from ttools.sanitizer.unread_tensors import UnreadTensors

if TYPE_CHECKING:
    from ttools.sanitizer.children.writing import Writer
    from ttools.sanitizer.post_mortem import PostMortem

#: The active sessions of this process. Forked processes inherit them.
_active: WeakSet[Session] = WeakSet()
#: Shortest time limit, in seconds, to which a kernel's limit is reduced after stopped launches.
_LEAST_SECONDS = 0.1
#: Exit status of a thread whose launch was stopped by Ctrl-C.
_INTERRUPTED = 130


class Session:
    """The state of one run; entered by `ttools.sanitizer.sanitize`.

    Attributes:
        own_findings: Findings of this process, merged by site, in order of appearance.
        maps: Maps of the accesses to the tensors that findings concern.
        folder: Folder to which child processes write; in a child process, the folder of its parent.
        post_mortem: Opens a debugger at the first finding; None if it is not wanted.
        run_one: Runs an autotuned launch in one configuration; by default the first.
    """

    def __init__(self, options: SanitizeOptions) -> None:
        self.options = options
        self._checks = ChosenChecks(
            [check for name, check in CHECKS.items() if name in options.checks]
        )
        self._checks_views = options.view_bounds != "off" and self._checks.observe("views")
        self._watches_allocations = options.poison or self._checks.observe("allocations")
        self.own_findings: list[Finding] = []
        self._tally = Tally(sorted(options.checks))
        self.maps: list[TensorMap] = []
        self.folder = Folder()
        #: In a child process, the folder to which it writes; otherwise None.
        self._joins: Path | None = None
        self._writer: Writer | None = None
        #: Kernels that received addresses of memory not allocated by torch, in order of appearance.
        self._beyond_torch: dict[str, None] = {}
        #: Number of launches in runs nested in this run, by kernel.
        self._inside: Counter[str] = Counter()
        #: The run in which this run is nested, and which would otherwise check its launches.
        self._around: Session | None = None
        self.post_mortem: PostMortem | None = None
        self.run_one: Callable[[TunedCall], Any] = run_first
        #: Reduced time limits, in seconds, of kernels with earlier launches that were stopped.
        self._limits: dict[str, float] = {}
        #: Reduced time limits for the compilation and the analyses of such kernels.
        self._phase_limits: dict[str, float] = {}
        self._lock = threading.Lock()
        self._book = AddressBook()
        self.kernel_facts = KernelFactsTable()
        self._memory = UninitialisedMemory(poison=options.poison)
        self._outputs = UnwrittenOutputs(self._memory, lambda finding: self._add([finding]))
        self._accuracy = AccuracyRecord(self._add)
        self._configs = AllConfigs(self._book, self._memory, lambda finding: self._add([finding]))
        self._restoring, self._pruned = Restoring(), PrunedConfigs()
        self._unread = (
            UnreadTensors(lambda finding: self._add([finding]))
            if Memcheck.name in options.checks
            else None
        )
        self._saved = (
            SavedTensors(lambda finding: self._add([finding]))
            if Memcheck.name in options.checks
            else None
        )
        self._constants = DerivedConstants() if Reproducibility.name in options.checks else None
        self._watches = ExitStack()
        self._entered = 0

    # ---- while the run is active
    def __enter__(self) -> Session:
        if self._entered == 0:
            self._watches.enter_context(self._book.watching())
            if self._saved is not None:
                self._saved.open()
            if self._watches_allocations:
                self._watches.enter_context(self._memory)
                self._outputs.open()
            _active.add(self)
        self._entered += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._entered -= 1
        if self._entered == 0:
            if self._unread is not None:
                self._unread.close()
            if self._saved is not None:
                self._saved.close()
            self._outputs.close()
            self._accuracy.close()
            self._watches.close()
            _active.discard(self)
            self._around = None

    def share_facts(self, table: KernelFactsTable) -> None:
        """Use the facts about kernels that earlier runs with the same options have determined."""
        self.kernel_facts = table

    def begins_inside(self, around: Session) -> None:
        """Record the run that would check the launches if this run were not active."""
        if self._entered == 0:
            self._around = None if around is self else around

    def join(self, folder: Path) -> None:
        """Make this process a child in the run of another process, which reads its findings.

        Args:
            folder: Folder to which this process writes from now on.
        """
        self._joins, self._writer = folder, None
        self._lock = threading.Lock()  # another thread of the parent may have held it at the fork
        self.own_findings, self.maps = [], []
        self._tally = Tally(sorted(self.options.checks))
        self._beyond_torch.clear()
        self._inside.clear()

    @property
    def is_child(self) -> bool:
        """True if this is a child process, so that another process creates the report."""
        return self._joins is not None

    def launch(self, launch: KernelLaunch) -> LaunchReport:
        """Run a launch under the checks; see `ttools.interpreter.run.kernel_launch`."""
        if self._joins is None and not self._watches_allocations:
            return self._launch(launch)  # no host reads are recorded, and there is no parent
        writer = self._writer_of_child()
        with self._outputs.launching():
            if writer is None:
                return self._launch(launch)
            with writer.launching(launch.kernel.name):
                return self._launch(launch)

    def _writer_of_child(self) -> Writer | None:
        """Return the writer of a child process, created at its first launch; otherwise None."""
        if self._joins is None or self._writer is not None:
            return self._writer
        from ttools.sanitizer.children.writing import Writer

        with self._lock:
            if self._writer is None:
                with suppress(OSError):  # the run's process and its folder are gone
                    own = lambda: self._own_launches  # noqa: E731
                    self._writer = Writer(self._joins, own, lambda: self._own_warnings)
        return self._writer

    def _launch(self, launch: KernelLaunch) -> LaunchReport:
        self._configs.before_execution(launch)
        is_from_here = launch.site.line is None
        if is_from_here:
            site = launch.site
            launch.site = CallSite(line=host_line(), config=site.config, choices=site.choices)
        debugger = self.post_mortem
        before = debugger.before(launch, self._memory, self._book) if debugger else None
        checked = CheckedLaunch(
            launch,
            self.options,
            self.kernel_facts.of(launch.kernel.variants),
            self._book,
            self._memory,
            self._outputs,
            self._accuracy,
            is_trial=self._configs.is_trial,
            checks_views=self._checks_views,
        )
        checked.seconds = self._limits.get(launch.kernel.name, checked.seconds)
        seconds = self._phase_limits.get(launch.kernel.name, self.options.timeout)
        work = self._tally.begin(launch.kernel.name, seconds, "preparation", checked)
        try:
            self._check(checked, work)
            self._tally.end(work)
        except BaseException as error:
            self._tally.end(work)
            checked.unfinished = unfinished(work, error, checked.pending)
            if checked.unfinished.reason == "interrupted" and not _was_stopped(launch):
                checked.findings.append(cut_short(checked, checked.unfinished, _pending(checked)))
            self._add_with_callers(checked.findings, is_from_here)
            self._count(launch, checked)
            if debugger is not None and isinstance(error, KernelError):
                debugger.look_at_failure(checked, before, error)
            if _ends_process(launch):
                wait_for_the_end()
            if isinstance(error, PhaseStopped):
                # End the thread silently, as when its native code is stopped.
                raise SystemExit(_INTERRUPTED) from None
            raise
        tuned = tuned_launch.get()
        if tuned is not None:
            checked.findings += self._restoring.findings(checked, tuned)
        if self._unread is not None:
            checked.findings += self._unread.findings(checked)
        if self._constants is not None:
            checked.findings += self._constants.findings(checked)
        if self._saved is not None:
            self._saved.remember(checked)
        checked.memory_owners = ()
        if checked.findings:
            checked.findings = explained(checked.findings)
            self._add_with_callers(checked.findings, is_from_here)
            self._add_maps(checked)
        if checked.unfinished is not None and checked.seconds is not None:
            # Reduce the limit, so that a kernel that is launched often does not take the full time
            # limit each time.
            limits = self._limits if checked.unfinished.phase == "run" else self._phase_limits
            spent = limits.get(launch.kernel.name, checked.seconds)
            limits[launch.kernel.name] = max(spent / 2, _LEAST_SECONDS)
        if checked.reaches_foreign_memory:
            self._beyond_torch[checked.spec.kernel] = None
        self._count(launch, checked)
        if debugger is not None:
            debugger.look(checked, before)
        return checked.report

    def _check(self, checked: CheckedLaunch, work: Work) -> None:
        """Run a launch under the checks; copies of GPU memory are unwritten where it is."""
        if not (self._watches_allocations and checked.is_given_device_memory):
            self._checks.run(checked, work)
            return
        launch = checked.launch
        with lent_to_host(self._memory, launch.arguments, launch.values):
            self._checks.run(checked, work)

    def compile_kernel(self, kernel: str, compiles: Callable[[], Any]) -> Any:
        """Compile a kernel for a launch with Triton's front end, within the time limit of a phase.

        Args:
            kernel: Name of the kernel.
            compiles: Function that compiles the kernel.

        Returns:
            The result of `compiles`; None if it exceeded the time limit, which a finding reports.
        """
        work = self._tally.begin(kernel, self.options.timeout, "compilation")
        try:
            return compiles()
        except (PhaseStopped, KeyboardInterrupt) as error:
            record = unfinished(work, error, sorted(self.options.checks))
            line = host_line()
            self._add([phase_finding(kernel, record, [NOT_MADE], launch=line)])
            self._tally.count_uncompiled(kernel, line, record)
            if isinstance(error, KeyboardInterrupt):
                raise
            if error.reason == "timeout":
                return None
            raise SystemExit(_INTERRUPTED) from None
        finally:
            self._tally.end(work)

    def tune(self, launch: TunedCall) -> Any:
        """Run an autotuned launch in one of its configurations, or in all of them."""
        # A tuner saves and restores memory; these accesses do not count as reads of the host.
        with (
            self._outputs.launching(),
            self._restoring.tuning(launch) as is_timed,
            self._pruned.tuning(launch),
        ):
            if is_timed and GpuRules.name in self.options.checks and capturing() is not None:
                self._add([tuned_in_capture(launch.kernel)])
            return self._configs.tune(launch) if self.options.all_configs else self.run_one(launch)

    def adopt(self, arguments: Iterable[Any]) -> None:
        """Treat the parts of tensors that contain a marker of unwritten memory as unwritten.

        Another run, possibly in another process, has written the marker.

        Args:
            arguments: Arguments of launches; arguments that are not tensors are ignored.
        """
        if self._watches_allocations:
            for tensor in tensors_among(arguments):
                self._memory.adopt(tensor)

    # ---- results
    @property
    def accuracy(self) -> list[OutputAccuracy]:
        """The errors of the outputs that this process has stored under the check `accuracy`."""
        return self._accuracy.outputs()

    @property
    def line_errors(self) -> list[LineErrors]:
        """The errors of the source lines that this process has run under the check `accuracy`."""
        return self._accuracy.line_errors()

    @property
    def findings(self) -> list[Finding]:
        """The findings of all processes, merged by site; findings of this process come first."""
        return merge([*self.own_findings, *self._tally.findings, *self._children().findings])

    @property
    def launches(self) -> list[TallyEntry]:
        """The launches of all processes, including running ones; equal launches have one entry."""
        return united([*self._own_launches, *self._children().launches])

    @property
    def warnings(self) -> list[str]:
        """Sentences on the limits of the checks in the whole run, from all processes."""
        return list(dict.fromkeys([*self._own_warnings, *self._children().warnings]))

    def _children(self) -> Children:
        return Children() if self.is_child else self.folder.read()

    @property
    def _own_launches(self) -> list[TallyEntry]:
        return self._tally.entries

    @property
    def _own_warnings(self) -> list[str]:
        beyond = [
            f"`{kernel}` was given addresses of memory that torch did not allocate; accesses there "
            "are allowed, since the end of that memory is unknown"
            for kernel in self._beyond_torch
        ]
        return [*self._memory.warnings, *beyond, *self._checked_inside()]

    def _note_inside(self, kernel: str) -> None:
        with self._lock:
            self._inside[kernel] += 1
        if self._around is not None:
            self._around._note_inside(kernel)

    def _checked_inside(self) -> list[str]:
        """Return a sentence on launches that a nested run checked instead; empty if none."""
        with self._lock:
            inside = dict(self._inside)
        if not inside:
            return []
        names = ", ".join(f"`{kernel}`" for kernel in inside)
        launches = counted(sum(inside.values()), "launch", "launches")
        text = f"{launches} of {names} ran in a sanitize() of the program"
        return [f"{text}: their findings are in its report, not in this one"]

    @property
    def launched_inside(self) -> bool:
        """True if runs that started inside this one have launched kernels."""
        return bool(self._inside)

    def _add_with_callers(self, findings: Sequence[Finding], is_from_here: bool) -> None:
        """Add the findings of a launch.

        Args:
            findings: Findings of the launch.
            is_from_here: True if the code on the stack makes the launch; its callers are then
                recorded. False if the line of the launch was recorded earlier.
        """
        if findings and is_from_here:
            callers = host_callers()
            findings = [replace(finding, launch_callers=callers) for finding in findings]
        self._add(findings)

    def _add(self, findings: Sequence[Finding]) -> None:
        if findings:
            merged = merge_in_launch(findings)
            with self._lock:
                self.own_findings = merge([*self.own_findings, *merged])
            if self._writer is not None:
                self._writer.write_findings(merged)

    def _add_maps(self, checked: CheckedLaunch) -> None:
        """Add maps of the tensors to which a launch's findings refer, one per kernel and name."""
        if checked.monitor is None:
            return
        with self._lock:
            kernel = checked.spec.kernel
            mapped = {row.argument.name for row in self.maps if row.kernel == kernel}
            maps = tensor_maps(
                checked.findings, checked.monitor, checked.spec, checked.regions, mapped
            )
            self.maps += itertools.islice(maps, MAPS_KEPT - len(self.maps))

    def _count(self, launch: KernelLaunch, checked: CheckedLaunch) -> None:
        self._tally.count(launch, checked)
        if self._around is not None:
            self._around._note_inside(launch.kernel.name)


def _was_stopped(launch: KernelLaunch) -> bool:
    """Return whether the programs of a launch were stopped; a separate finding covers that."""
    return launch.monitor is not None and launch.monitor.stop is not None


def _pending(checked: CheckedLaunch) -> list[str]:
    """Return a sentence that names the checks that have not finished; empty if all have."""
    return [f"not finished: {', '.join(checked.pending)}"] if checked.pending else []


def _ends_process(launch: KernelLaunch) -> bool:
    """Return whether a launch was stopped because the process is ending."""
    stop = None if launch.monitor is None else launch.monitor.stop
    return stop is not None and stop.reason == "end"


def _join_after_fork() -> None:
    for session in list(_active):
        session.join(session.folder.path if session._joins is None else session._joins)


os.register_at_fork(after_in_child=_join_after_fork)
