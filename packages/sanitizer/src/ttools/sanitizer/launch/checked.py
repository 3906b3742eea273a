"""One launch under the checks: what is known of it, how it is run, and what was found in it.

Must not know any check, nor what came of other launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache

from ttools.core.device_map.memory import on_host
from ttools.core.findings.findings import Finding, Unfinished
from ttools.core.spec import LaunchSpec
from ttools.interpreter.abi.module import Instruments
from ttools.interpreter.abi.region import ANYWHERE, Region, region_of
from ttools.interpreter.abi.rereads import Rereads
from ttools.interpreter.run.address_book import AddressBook
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.interpreter.runtime.launch import LaunchReport
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.interpreter.runtime.monitor import Monitor
from ttools.sanitizer.analysis.known_kernel import KnownKernel
from ttools.sanitizer.launch.options import SanitizeOptions
from ttools.sanitizer.memory.addresses import Addresses
from ttools.sanitizer.memory.foreign import foreign_memory
from ttools.sanitizer.memory.launch_state import tensors_among
from ttools.sanitizer.memory.outputs import UnwrittenOutputs
from ttools.sanitizer.memory.regions import KnownRegions
from ttools.sanitizer.memory.uninitialised import UninitialisedMemory
from ttools.sanitizer.passes import poison
from ttools.sanitizer.passes.rewrites import Pass, Rewrites


@lru_cache(maxsize=1024)
def _instruments(footprints: bool, synchronised: bool, names: tuple[str, ...]) -> Instruments:
    """Equal launches get the same object, by which their native code is found."""
    return Instruments(
        guards=True, footprints=footprints, synchronised=synchronised, rewrites=names
    )


class CheckedLaunch:
    """A launch that is to run under checks.

    It is the state of the checks during one launch; the launch as data is its `spec`.

    Args:
        book: the addresses that the run knows.
        memory: knows which bytes were never written.
        outputs: those of the run that are not written whole.
        is_trial: whether memory is put back after it, for another configuration.
        judges_views: whether accesses must stay inside the view passed, not only its storage.

    Attributes:
        regions: the memory that each parameter may access.
        rewrites: the passes that rewrite its kernel.
        instruments: what its native code observes.
        hung: whether it ended because no program could go on.
        reaches_foreign_memory: whether it is given addresses of memory whose bounds are unknown.
        seconds: that an execution may take; None for any time.
        report: what its first execution did.
        monitor: what was observed when the programs ran in their own order.
        findings: what was found so far.
        pending: names of the checks that have not finished, in their order.
        unfinished: why it was not checked to its end; None while nothing was cut short.
    """

    # What most launches leave as it is.
    monitor: Monitor | None = None
    report = LaunchReport(0, 0.0)
    hung = reaches_foreign_memory = False
    rewrites = Rewrites()
    instruments = _instruments(False, False, ())
    _hidden: Sequence[int] = ()
    unfinished: Unfinished | None = None
    # The checks, which own the memory at the addresses in `_hidden`. They refer to this object:
    # whoever made the launch clears this when no further execution is to come.
    memory_owners: Sequence[object] = ()

    def __init__(
        self,
        launch: KernelLaunch,
        options: SanitizeOptions,
        kernel: KnownKernel,
        book: AddressBook,
        memory: UninitialisedMemory,
        outputs: UnwrittenOutputs,
        *,
        is_trial: bool,
        judges_views: bool,
    ) -> None:
        self.launch, self.options, self.kernel = launch, options, kernel
        self.book, self.memory, self.outputs = book, memory, outputs
        self.is_trial = is_trial
        self.findings: list[Finding] = []
        self.pending: Sequence[str] = ()
        self.seconds = options.timeout
        self._judges_views = judges_views
        self.regions = kernel.remember(KnownRegions, KnownRegions).regions(launch, self._region)

    # Few launches have findings: what describes them is not made for each.
    @cached_property
    def spec(self) -> LaunchSpec:
        """The launch as findings describe it."""
        return self.launch.spec

    @cached_property
    def addresses(self) -> Addresses:
        return Addresses(self.regions, self.book)

    @property
    def is_given_device_memory(self) -> bool:
        """Whether a tensor among the arguments is in the memory of a GPU."""
        launch = self.launch
        if launch.arguments is launch.values:
            return False
        changed = [a for a, v in zip(launch.arguments, launch.values, strict=True) if a is not v]
        return bool(changed) and any(
            hasattr(each, "device") and not on_host(each) for each in tensors_among(changed)
        )

    def allocations(self) -> Sequence[tuple[int, int]]:
        """First address and end of all memory that a pointer of unknown origin may lead to."""
        known = self.addresses.allocations()
        freed = self.addresses.freed
        foreign = foreign_memory(self.launch.arguments, known, freed)
        self.reaches_foreign_memory = bool(foreign)
        return sorted([*known, *foreign])

    def _region(self, index: int) -> Region:
        argument, value = self.launch.arguments[index], self.launch.values[index]
        known = region_of(argument, value, judges_view=self._judges_views)
        if known is not None:
            return known
        address = self.launch.raw_parameters[index]
        for start, end in self.book.live():
            if start <= address < end:
                return Region((start, end), (start, end), judges_view=False)
        return ANYWHERE

    def instrument(
        self, passes: Sequence[Pass], hidden: Sequence[int], *, logs_accesses: bool
    ) -> None:
        """Decides what its executions observe.

        Args:
            passes: rewrite the kernel, in this order.
            hidden: values of the parameters that they append to it.
            logs_accesses: whether accesses to memory that the launch writes are logged, and in
                order those that synchronise.
        """
        kernel = self.kernel
        if self.options.poison and kernel.fact(poison.is_needed):
            passes = [*passes, poison.PASS]
        if passes or kernel.calls:
            # The parameter that the pointer of an access in a callee comes from is known to its
            # caller only, so calls are inlined for any check.
            self.rewrites = kernel.remember(
                tuple(passes), lambda: Rewrites(passes, inlines=kernel.calls)
            )
        self._hidden = hidden
        if logs_accesses or self.rewrites.names:
            synchronised = logs_accesses and self.launch.kernel.variants.synchronises
            self.instruments = _instruments(logs_accesses, synchronised, self.rewrites.names)

    def execute(self, options: LaunchOptions, rereads: Rereads | None = None) -> LaunchReport:
        """Runs all programs; what they observe is then in `launch.monitor`.

        Args:
            rereads: chooses what accesses see that leave memory as it is.

        Raises:
            TtoolsError: as the launch would without checks.
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
