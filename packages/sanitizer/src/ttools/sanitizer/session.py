"""A sanitizer run: the instruments it switches on at each launch, and the findings they make.

Owns the life of the checks. Must not know how findings are written.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ttools.core.errors import KernelError
from ttools.core.findings.findings import Finding, LaunchEntry, merge, merge_in_launch
from ttools.core.process.host_line import host_line
from ttools.core.reports.tensor_map import TensorMap
from ttools.interpreter.run.observation import ObservedLaunch
from ttools.interpreter.run.tuned_launch import TunedLaunch
from ttools.interpreter.runtime.launch import LaunchReport
from ttools.sanitizer.all_configs import AllConfigs
from ttools.sanitizer.analysis.known_kernel import KnownKernels
from ttools.sanitizer.checking import ChosenChecks
from ttools.sanitizer.checks.registry import CHECKS
from ttools.sanitizer.forked_launches import ForkedLaunches
from ttools.sanitizer.launch.checked import CheckedLaunch
from ttools.sanitizer.launch.options import SanitizeOptions
from ttools.sanitizer.launch.subject import Subject
from ttools.sanitizer.maps import MAPS_KEPT, tensor_maps
from ttools.sanitizer.memory.addresses import AddressBook
from ttools.sanitizer.memory.launch_state import tensors_among
from ttools.sanitizer.memory.uninitialised import UninitialisedMemory

if TYPE_CHECKING:
    from ttools.sanitizer.post_mortem import PostMortem


class Session:
    """Everything one run owns; entered by `ttools.sanitizer.sanitize`.

    Attributes:
        options: what is checked.
        findings: merged by site, in order of appearance.
        maps: which programs touched what of the tensors that findings concern.
        forked: what processes that the program forks launch.
        post_mortem: looks at the first finding in a debugger, if it is to be looked at.
    """

    def __init__(self, options: SanitizeOptions) -> None:
        self.options = options
        self._checks = ChosenChecks(
            [check for name, check in CHECKS.items() if name in options.checks]
        )
        self._judges_views = options.view_bounds != "off" and self._checks.observe("views")
        self.findings: list[Finding] = []
        #: By what equal launches have in common: how many there were, and their seconds.
        self._tallies: dict[object, tuple[LaunchEntry, int, float]] = {}
        self.maps: list[TensorMap] = []
        self.forked = ForkedLaunches()
        #: Kernels, in order, that were given addresses of memory that is not torch's.
        self._beyond_torch: dict[str, None] = {}
        self.post_mortem: PostMortem | None = None
        self._lock = threading.Lock()
        self._book = AddressBook()
        self._kernels = KnownKernels()
        self._memory = UninitialisedMemory()
        self._configs = AllConfigs(self._book, self._memory, lambda found: self._add([found]))
        self._watches = ExitStack()
        self._entered = 0

    # ---- while the run is active
    def __enter__(self) -> Session:
        if self._entered == 0:
            self._watches.enter_context(self._book.watching())
            if self._checks.observe("allocations"):
                self._watches.enter_context(self._memory)
        self._entered += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._entered -= 1
        if self._entered == 0:
            self._watches.close()

    def launch(self, launch: ObservedLaunch) -> LaunchReport:
        """Runs a launch under the checks; see `ttools.interpreter.run.observation`."""
        self._configs.before_execution(launch)
        launch.host_line = launch.host_line or host_line()
        debugger = self.post_mortem
        before = debugger.before(launch, self._memory, self._book) if debugger else None
        checked = CheckedLaunch(
            launch,
            self.options,
            self._kernels.of(launch.variants),
            self._book,
            self._memory,
            judges_views=self._judges_views,
        )
        try:
            self._checks.run(checked)
        except (KernelError, KeyboardInterrupt) as error:
            self._add(checked.findings)
            self.forked.note(checked.findings)
            self._count(launch, checked.report)
            if debugger is not None and isinstance(error, KernelError):
                debugger.look_at_failure(checked, before, error)
            raise
        self._add(checked.findings)
        self.forked.note(checked.findings)
        if checked.reaches_foreign_memory:
            self._beyond_torch[checked.subject.kernel] = None
        self._add_maps(checked)
        self._count(launch, checked.report)
        if debugger is not None:
            debugger.look(checked, before)
        return checked.report

    def tune(self, launch: TunedLaunch) -> Any:
        """Runs an autotuned launch in all its configurations."""
        return self._configs.tune(launch)

    def adopt(self, arguments: Iterable[Any]) -> None:
        """Takes memory as unwritten that another watch filled, also one of another process.

        Args:
            arguments: of launches; only tensors matter.
        """
        if self._checks.observe("allocations"):
            for each in tensors_among(arguments):
                self._memory.adopt(each)

    # ---- what it leaves
    @property
    def launches(self) -> list[LaunchEntry]:
        """What ran, equal launches together."""
        with self._lock:
            tallies = list(self._tallies.values())
        return [replace(each, count=count, seconds=s) for each, count, s in tallies]

    @property
    def warnings(self) -> list[str]:
        """What the user should know of the run as a whole, a sentence each."""
        beyond = [
            f"`{kernel}` was given addresses of memory that is not torch's: it is accessed there, "
            "but where that memory ends is not known"
            for kernel in self._beyond_torch
        ]
        return [*self._memory.warnings, *beyond, *self.forked.warnings]

    def _add(self, findings: Sequence[Finding]) -> None:
        if findings:
            with self._lock:
                self.findings = merge([*self.findings, *merge_in_launch(findings)])

    def _add_maps(self, checked: CheckedLaunch) -> None:
        """Maps the tensors that findings concern, those of a kernel once."""
        if not checked.findings or checked.monitor is None:
            return
        with self._lock:
            kernel = checked.subject.kernel
            known = {each.argument.name for each in self.maps if each.kernel == kernel}
            maps = tensor_maps(
                checked.findings, checked.monitor, checked.subject, checked.regions, known
            )
            self.maps += itertools.islice(maps, MAPS_KEPT - len(self.maps))

    def _count(self, launch: ObservedLaunch, report: LaunchReport) -> None:
        config = None if launch.config is None else repr(launch.config)
        key = (launch.kernel, tuple(launch.grid), launch.host_line, config)
        with self._lock:
            entry, count, seconds = self._tallies.get(key) or (_entry(launch), 0, 0.0)
            self._tallies[key] = entry, count + 1, seconds + report.seconds


def _entry(launch: ObservedLaunch) -> LaunchEntry:
    """What equal launches have in common; it must not keep the arguments of any alive."""
    known = Subject.of(launch)
    return LaunchEntry(
        kernel=known.kernel, grid=known.grid, location=known.host_line, config=known.config
    )
