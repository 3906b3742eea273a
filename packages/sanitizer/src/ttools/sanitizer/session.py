"""A sanitizer run: the instruments it switches on at each launch, and the findings they make.

Owns the life of the checks. Must not know how findings are written.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from msgspec.structs import replace as replaced

from ttools.core.errors import KernelError
from ttools.core.findings.findings import Finding, TallyEntry, merge, merge_in_launch
from ttools.core.process.host_line import host_callers, host_line
from ttools.core.process.phases import PhaseStopped
from ttools.core.reports.report import counted
from ttools.core.reports.tensor_map import TensorMap
from ttools.interpreter.run.address_book import AddressBook
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.interpreter.run.tuned_launch import TunedCall, run_first
from ttools.interpreter.runtime.launch import LaunchReport
from ttools.interpreter.runtime.stopping import wait_for_the_end
from ttools.sanitizer.all_configs import AllConfigs
from ttools.sanitizer.analysis.kernel_facts import KernelFactsTable
from ttools.sanitizer.checking import ChosenChecks
from ttools.sanitizer.checks.registry import CHECKS
from ttools.sanitizer.children.reading import Children, Folder
from ttools.sanitizer.launch.checked import CheckedLaunch
from ttools.sanitizer.launch.options import SanitizeOptions
from ttools.sanitizer.launch.stopped import NOT_MADE, cut_short, phase_finding, unfinished
from ttools.sanitizer.launch.tally import Tally, united
from ttools.sanitizer.maps import MAPS_KEPT, tensor_maps
from ttools.sanitizer.memory.launch_state import lent_to_host, tensors_among
from ttools.sanitizer.memory.outputs import UnwrittenOutputs
from ttools.sanitizer.memory.uninitialised import UninitialisedMemory
from ttools.sanitizer.restoring import Restoring, tuned_launch

if TYPE_CHECKING:
    from ttools.sanitizer.children.writing import Writer
    from ttools.sanitizer.post_mortem import PostMortem

#: The sessions of this process that are active; forks of it have them, too.
_active: WeakSet[Session] = WeakSet()
#: The least that launches are given of a kernel that was stopped again and again, in seconds.
_LEAST_SECONDS = 0.1
#: Status with which a thread ends whose launch was stopped by Ctrl-C.
_INTERRUPTED = 130


class Session:
    """Everything one run owns; entered by `ttools.sanitizer.sanitize`.

    Attributes:
        own_findings: of this process, merged by site, in order of appearance.
        maps: which programs touched what of the tensors that findings concern.
        folder: where children of this process write; of the run's process in its children.
        post_mortem: looks at the first finding in a debugger, if it is to be looked at.
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
        #: Where this process writes as a child of the run's process; None in that one.
        self._joins: Path | None = None
        self._writer: Writer | None = None
        #: Kernels, in order, that were given addresses of memory that is not torch's.
        self._beyond_torch: dict[str, None] = {}
        #: Kernels that were launched in runs inside this one, and how often.
        self._inside: Counter[str] = Counter()
        #: The run that this one began inside, and which would have checked its launches.
        self._around: Session | None = None
        self.post_mortem: PostMortem | None = None
        #: How long launches of kernels may take that were stopped before.
        self._limits: dict[str, float] = {}
        #: The same for their compilations and analyses.
        self._phase_limits: dict[str, float] = {}
        self._lock = threading.Lock()
        self._book = AddressBook()
        self._kernels = KernelFactsTable()
        self._memory = UninitialisedMemory(poison=options.poison)
        self._outputs = UnwrittenOutputs(self._memory, lambda found: self._add([found]))
        self._configs = AllConfigs(self._book, self._memory, lambda found: self._add([found]))
        self._restoring = Restoring()
        self._watches = ExitStack()
        self._entered = 0

    # ---- while the run is active
    def __enter__(self) -> Session:
        if self._entered == 0:
            self._watches.enter_context(self._book.watching())
            if self._watches_allocations:
                self._watches.enter_context(self._memory)
                self._outputs.open()
            _active.add(self)
        self._entered += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._entered -= 1
        if self._entered == 0:
            self._outputs.close()
            self._watches.close()
            _active.discard(self)
            self._around = None

    def begins_inside(self, around: Session) -> None:
        """Notes which run the launches of this one would belong to without it."""
        if self._entered == 0:
            self._around = None if around is self else around

    def join(self, folder: Path) -> None:
        """Makes this process a child in the run of another one, for which it writes from now on."""
        self._joins, self._writer = folder, None
        self._lock = threading.Lock()  # another thread of the other process may have held it
        self.own_findings, self.maps = [], []
        self._tally = Tally(sorted(self.options.checks))
        self._beyond_torch.clear()
        self._inside.clear()

    @property
    def is_child(self) -> bool:
        """Whether another process makes the report."""
        return self._joins is not None

    def launch(self, launch: KernelLaunch) -> LaunchReport:
        """Runs a launch under the checks; see `ttools.interpreter.run.kernel_launch`."""
        if self._joins is None and not self._watches_allocations:
            return self._launch(launch)  # nobody is told what is read meanwhile
        writer = self._writer_of_child()
        with self._outputs.launching():
            if writer is None:
                return self._launch(launch)
            with writer.launching(launch.kernel.name):
                return self._launch(launch)

    def _writer_of_child(self) -> Writer | None:
        if self._joins is None or self._writer is not None:
            return self._writer
        from ttools.sanitizer.children.writing import Writer

        with self._lock:
            if self._writer is None:
                with suppress(OSError):  # the run's process is gone, and its folder with it
                    own = lambda: self._own_launches  # noqa: E731
                    self._writer = Writer(self._joins, own, lambda: self._own_warnings)
        return self._writer

    def _launch(self, launch: KernelLaunch) -> LaunchReport:
        self._configs.before_execution(launch)
        is_from_here = launch.site.line is None
        if is_from_here:
            launch.site = replaced(launch.site, line=host_line())
        debugger = self.post_mortem
        before = debugger.before(launch, self._memory, self._book) if debugger else None
        checked = CheckedLaunch(
            launch,
            self.options,
            self._kernels.of(launch.kernel.variants),
            self._book,
            self._memory,
            self._outputs,
            is_trial=self._configs.is_trial,
            checks_views=self._checks_views,
        )
        checked.seconds = self._limits.get(launch.kernel.name, checked.seconds)
        seconds = self._phase_limits.get(launch.kernel.name, self.options.timeout)
        work = self._tally.begin(launch.kernel.name, seconds, "preparation", checked)
        try:
            with self._lent(checked):
                self._checks.run(checked, work)
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
                # As where native code of a thread is stopped: it ends without a word.
                raise SystemExit(_INTERRUPTED) from None
            raise
        tuned = tuned_launch.get()
        if tuned is not None:
            checked.findings += self._restoring.findings(checked, tuned)
        checked.memory_owners = ()
        if checked.findings:
            self._add_with_callers(checked.findings, is_from_here)
            self._add_maps(checked)
        if checked.unfinished is not None and checked.seconds is not None:
            # Launched again and again, it must not take that long each time.
            limits = self._limits if checked.unfinished.phase == "run" else self._phase_limits
            spent = limits.get(launch.kernel.name, checked.seconds)
            limits[launch.kernel.name] = max(spent / 2, _LEAST_SECONDS)
        if checked.reaches_foreign_memory:
            self._beyond_torch[checked.spec.kernel] = None
        self._count(launch, checked)
        if debugger is not None:
            debugger.look(checked, before)
        return checked.report

    def _lent(self, checked: CheckedLaunch) -> AbstractContextManager[None]:
        """Return what lets the copies of a GPU's memory be as unwritten as that memory."""
        if not (self._watches_allocations and checked.is_given_device_memory):
            return nullcontext()
        launch = checked.launch
        return lent_to_host(self._memory, launch.arguments, launch.values)

    def compile_kernel(self, kernel: str, compiles: Callable[[], Any]) -> Any:
        """Has Triton's front end compile a kernel for a launch.

        Returns:
            What it returns; None if that took longer than a launch may, which a finding says.
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
        """Runs an autotuned launch in the first of its configurations, or in all."""
        with self._outputs.launching(), self._restoring.tuning(launch):  # tuners save and put back
            return self._configs.tune(launch) if self.options.all_configs else run_first(launch)

    def adopt(self, arguments: Iterable[Any]) -> None:
        """Takes memory as unwritten that another watch filled, also one of another process.

        Args:
            arguments: of launches; only tensors matter.
        """
        if self._watches_allocations:
            for each in tensors_among(arguments):
                self._memory.adopt(each)

    # ---- what it leaves
    @property
    def findings(self) -> list[Finding]:
        """What was found in all processes, merged by site; those of this one come first."""
        return merge([*self.own_findings, *self._tally.findings, *self._children().findings])

    @property
    def launches(self) -> list[TallyEntry]:
        """What ran in all processes, equal launches together, and what is still running."""
        return united([*self._own_launches, *self._children().launches])

    @property
    def warnings(self) -> list[str]:
        """What the user should know of the run as a whole, a sentence each."""
        return list(dict.fromkeys([*self._own_warnings, *self._children().warnings]))

    def _children(self) -> Children:
        return Children() if self.is_child else self.folder.read()

    @property
    def _own_launches(self) -> list[TallyEntry]:
        return self._tally.entries

    @property
    def _own_warnings(self) -> list[str]:
        beyond = [
            f"`{kernel}` was given addresses of memory that is not torch's: it is accessed there, "
            "but where that memory ends is not known"
            for kernel in self._beyond_torch
        ]
        return [*self._memory.warnings, *beyond, *self._checked_inside()]

    def _note_inside(self, kernel: str) -> None:
        with self._lock:
            self._inside[kernel] += 1
        if self._around is not None:
            self._around._note_inside(kernel)

    def _checked_inside(self) -> list[str]:
        """That launches are missing here: at most one sentence."""
        with self._lock:
            inside = dict(self._inside)
        if not inside:
            return []
        names = ", ".join(f"`{kernel}`" for kernel in inside)
        launches = counted(sum(inside.values()), "launch", "launches")
        where = "a sanitize() of the program's own"
        return [
            f"{launches} of {names} in {where}: what it found is in its report, not in this one"
        ]

    @property
    def launched_inside(self) -> bool:
        """Whether runs that began inside this one have launched kernels."""
        return bool(self._inside)

    def _add_with_callers(self, findings: Sequence[Finding], is_from_here: bool) -> None:
        """Adds findings of a launch that is being made, or of one that was recorded."""
        if findings and is_from_here:
            callers = host_callers()
            findings = [replace(each, launch_callers=callers) for each in findings]
        self._add(findings)

    def _add(self, findings: Sequence[Finding]) -> None:
        if findings:
            found = merge_in_launch(findings)
            with self._lock:
                self.own_findings = merge([*self.own_findings, *found])
            if self._writer is not None:
                self._writer.found(found)

    def _add_maps(self, checked: CheckedLaunch) -> None:
        """Maps the tensors that findings concern, those of a kernel once."""
        if checked.monitor is None:
            return
        with self._lock:
            kernel = checked.spec.kernel
            known = {each.argument.name for each in self.maps if each.kernel == kernel}
            maps = tensor_maps(
                checked.findings, checked.monitor, checked.spec, checked.regions, known
            )
            self.maps += itertools.islice(maps, MAPS_KEPT - len(self.maps))

    def _count(self, launch: KernelLaunch, checked: CheckedLaunch) -> None:
        self._tally.count(launch, checked)
        if self._around is not None:
            self._around._note_inside(launch.kernel.name)


def _was_stopped(launch: KernelLaunch) -> bool:
    """Return whether its programs were stopped, which has a finding of its own."""
    return launch.monitor is not None and launch.monitor.stop is not None


def _pending(checked: CheckedLaunch) -> list[str]:
    """Say which checks have not finished."""
    return [f"not finished: {', '.join(checked.pending)}"] if checked.pending else []


def _ends_process(launch: KernelLaunch) -> bool:
    stop = None if launch.monitor is None else launch.monitor.stop
    return stop is not None and stop.reason == "end"


def _join_after_fork() -> None:
    for session in list(_active):
        session.join(session.folder.path if session._joins is None else session._joins)


os.register_at_fork(after_in_child=_join_after_fork)
