"""One launch under the checks: how its kernel is instrumented and run, and what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from ttools.core.device_map.memory import on_host
from ttools.core.findings.findings import Finding, Unfinished
from ttools.core.spec import LaunchSpec
from ttools.interpreter.abi.module import Instruments
from ttools.interpreter.abi.region import ANYWHERE, Region, region_of
from ttools.interpreter.abi.reread_values import Rereads
from ttools.interpreter.run.address_book import AddressBook
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.interpreter.runtime.launch import LaunchReport
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.interpreter.runtime.monitor import Monitor
from ttools.sanitizer.accuracy.record import AccuracyRecord
from ttools.sanitizer.analysis.kernel_facts import KernelFacts
from ttools.sanitizer.launch.options import SanitizeOptions
from ttools.sanitizer.memory.addresses import Addresses, foreign_memory
from ttools.sanitizer.memory.launch_state import tensors_among
from ttools.sanitizer.memory.outputs import UnwrittenOutputs
from ttools.sanitizer.memory.regions import RegionCache
from ttools.sanitizer.memory.uninitialised import UninitialisedMemory
from ttools.sanitizer.passes import poison
from ttools.sanitizer.passes.rewrites import Pass, Rewrites

if TYPE_CHECKING:
    from ttools.sanitizer.causes.masks import Explained


#: Maximum number of plans that are kept for the same regions.
_MOST_PLANS = 16


@lru_cache(maxsize=1024)
def _instruments(footprints: bool, synchronised: bool, names: tuple[str, ...]) -> Instruments:
    """Return the same object for equal arguments, because native code is found by its identity."""
    return Instruments(
        guards=True, footprints=footprints, synchronised=synchronised, rewrites=names
    )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The instruments and options of a launch that had no findings.

    Attributes:
        requested: The options of the run and the time limit in seconds, from which `options`
            follow.
        options: The options with which its programs ran.
        data_passes: The passes that depend on data, see `Check.data_hooks`.
        rewrites: The passes that rewrote the kernel.
        instruments: The observations that native code made.
    """

    requested: tuple[LaunchOptions, float | None]
    options: LaunchOptions
    data_passes: tuple[Pass, ...]
    rewrites: Rewrites
    instruments: Instruments


class CheckedLaunch:
    """The state of the checks during one launch, whose description as data is a `LaunchSpec`.

    Args:
        launch: The launch; its description as data is `spec`.
        options: The options of the run.
        kernel: Facts about the kernel.
        book: The addresses that have occurred in this run so far.
        memory: The record of bytes that were never written.
        outputs: The outputs of the run that have unwritten elements.
        accuracy: Exact values and sources of errors, which the check `accuracy` keeps.
        is_trial: If True, memory is restored after this launch for another configuration.
        checks_views: If True, accesses must stay inside the view that was passed, and not only
            inside its storage.

    Attributes:
        regions: The memory that each parameter may access.
        rewrites: The passes that rewrite the kernel.
        instruments: Observations that native code makes.
        hung: True if the launch ended because no program could continue.
        reaches_foreign_memory: True if arguments contain addresses of memory with unknown bounds.
        seconds: Time limit of an execution; None for no limit.
        report: The result of the first execution.
        monitor: Observations of the run in the programs' own order.
        findings: The findings so far.
        causes: The causes of the out-of-bounds accesses that were found so far.
        pending: Names of the checks that have not finished, in order.
        unfinished: Reason why the launch was not checked completely; None if it was.
    """

    # Defaults that most launches do not change.
    monitor: Monitor | None = None
    report = LaunchReport(0, 0.0)
    hung = reaches_foreign_memory = False
    rewrites = Rewrites()
    instruments = _instruments(False, False, ())
    _hidden: Sequence[int] = ()
    unfinished: Unfinished | None = None
    # The checks own the memory at the addresses in `_hidden`. They also refer to this object, so
    # the session breaks the reference cycle by clearing this attribute after the last execution.
    memory_owners: Sequence[object] = ()

    def __init__(
        self,
        launch: KernelLaunch,
        options: SanitizeOptions,
        kernel: KernelFacts,
        book: AddressBook,
        memory: UninitialisedMemory,
        outputs: UnwrittenOutputs,
        accuracy: AccuracyRecord,
        *,
        is_trial: bool,
        checks_views: bool,
    ) -> None:
        self.launch, self.options, self.kernel = launch, options, kernel
        self.book, self.memory, self.outputs = book, memory, outputs
        self.accuracy = accuracy
        self.is_trial = is_trial
        self.findings: list[Finding] = []
        self.causes: list[Explained] = []
        self.pending: Sequence[str] = ()
        self.seconds = options.timeout
        self._checks_views = checks_views
        self.regions = kernel.remember(RegionCache, RegionCache).regions(launch, self._region)

    # The description is computed on demand, because only the few launches with findings need it.
    @cached_property
    def spec(self) -> LaunchSpec:
        """Return the launch as findings describe it."""
        return self.launch.spec

    @cached_property
    def addresses(self) -> Addresses:
        return Addresses(self.regions, self.book)

    @property
    def is_given_device_memory(self) -> bool:
        """Return whether any tensor argument is in the memory of a GPU."""
        launch = self.launch
        if launch.arguments is launch.values:
            return False
        changed = [a for a, v in zip(launch.arguments, launch.values, strict=True) if a is not v]
        return bool(changed) and any(
            hasattr(tensor, "device") and not on_host(tensor) for tensor in tensors_among(changed)
        )

    def allocations(self) -> Sequence[tuple[int, int]]:
        """Return start and end of all memory that a pointer of unknown origin may lead to."""
        own = self.addresses.allocations()
        freed = self.addresses.freed
        foreign = foreign_memory(self.launch.arguments, own, freed)
        self.reaches_foreign_memory = bool(foreign)
        return sorted([*own, *foreign])

    def _region(self, index: int) -> Region:
        argument, value = self.launch.arguments[index], self.launch.values[index]
        region = region_of(argument, value, checks_view=self._checks_views)
        if region is not None:
            return region
        address = self.launch.raw_parameters[index]
        for start, end in self.book.live():
            if start <= address < end:
                return Region((start, end), (start, end), checks_view=False)
        return ANYWHERE

    def instrument(
        self, passes: Sequence[Pass], hidden: Sequence[int], *, logs_accesses: bool
    ) -> None:
        """Determine what the executions of this launch observe.

        Args:
            passes: Rewrites of the kernel, in order.
            hidden: Values of the parameters that the passes append.
            logs_accesses: If True, log accesses to memory that the launch writes, and the order of
                synchronising accesses.
        """
        kernel = self.kernel
        if self.options.poison and kernel.fact(poison.is_needed):
            passes = [*passes, poison.PASS]
        if passes or kernel.calls:
            # The parameter from which a pointer in a called function derives is known only in the
            # caller, so calls are inlined for all checks.
            self.rewrites = kernel.remember(
                tuple(passes), lambda: Rewrites(passes, inlines=kernel.calls)
            )
        self._hidden = hidden
        if logs_accesses or self.rewrites.names:
            synchronised = logs_accesses and self.launch.kernel.variants.synchronises
            self.instruments = _instruments(logs_accesses, synchronised, self.rewrites.names)

    @property
    def plan(self) -> Plan | None:
        """Return the plan of an earlier launch that differs only in the contents of memory, if any.

        The earlier launch had no findings, so checks that do not depend on the contents of memory
        have no findings for this launch either.
        """
        launch = self.launch
        key = (*launch.grid, *launch.raw_parameters)
        plan: Plan | None = self.regions.plans.get(key)
        if plan is None or launch.on_gpu or launch.violations:
            return None
        options, seconds = plan.requested
        same = options is launch.run.launch_options and seconds == self.seconds
        return plan if same else None

    def follow(self, plan: Plan, hidden: Sequence[int]) -> None:
        """Make the same observations as an earlier launch.

        Args:
            hidden: Values of the parameters that the passes append.
        """
        self._hidden = hidden
        self.rewrites, self.instruments = plan.rewrites, plan.instruments

    def keep_plan(self, options: LaunchOptions, data_passes: tuple[Pass, ...]) -> None:
        """Keep the plan of this launch, which has run, if it has no findings.

        Args:
            options: The options with which the programs of this launch ran.
            data_passes: The passes that depend on data.
        """
        launch = self.launch
        if self.findings or self.unfinished or self.hung or self.is_trial:
            return
        if launch.on_gpu or launch.violations or self.rewrites.unchecked:
            return
        plans = self.regions.plans
        if len(plans) >= _MOST_PLANS:
            plans.clear()
        key = (*launch.grid, *launch.raw_parameters)
        plans[key] = Plan(
            requested=(launch.run.launch_options, self.seconds),
            options=options,
            data_passes=data_passes,
            rewrites=self.rewrites,
            instruments=self.instruments,
        )

    def rerun(self, passes: Sequence[Pass], hidden: Sequence[int]) -> None:
        """Run all programs once more with other rewrites of the kernel.

        The observations of the first run are kept. The caller restores memory.

        Args:
            passes: The rewrites, in order.
            hidden: Values of the parameters that they append.
        """
        launch, kernel = self.launch, self.kernel
        key = tuple(passes)
        rewrites = kernel.remember(key, lambda: Rewrites(passes, inlines=kernel.calls))
        first = self.rewrites, self.instruments, self._hidden, launch.monitor
        self.rewrites, self.instruments = rewrites, _instruments(False, False, rewrites.names)
        self._hidden = hidden
        try:
            self.execute(launch.run.launch_options)
        finally:
            self.rewrites, self.instruments, self._hidden, launch.monitor = first

    def execute(self, options: LaunchOptions, rereads: Rereads | None = None) -> LaunchReport:
        """Run all programs; afterwards, the observations are in `launch.monitor`.

        Args:
            options: Options of this execution, such as the order of programs.
            rereads: Chooses the values that are returned by accesses that leave memory unchanged.

        Raises:
            TtoolsError: If the launch would also fail without checks.
        """
        return self.launch.execute(
            self.instruments,
            regions=self.regions,
            allocations=self.allocations,
            rewrite=self.rewrites.apply if self.rewrites.names else None,
            hidden=self._hidden,
            options=options,
            rereads=rereads,
        )
