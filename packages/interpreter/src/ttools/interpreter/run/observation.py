"""Launches handed to an observer, which runs them with instruments of its choice, even repeatedly.

The interface between the engine and whoever looks at what kernels do. Must not know what is looked
for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ttools.core.gpus.launch_rules import Violation
from ttools.interpreter.abi.facts import storage_extent
from ttools.interpreter.abi.module import EmitOptions, Facts, Instruments
from ttools.interpreter.abi.region import NOWHERE, Region
from ttools.interpreter.run.bounds import (
    GUARDS,
    Guarded,
    LaunchGuards,
    guarding_monitor,
    storage_regions,
)
from ttools.interpreter.run.launch_rules import refused
from ttools.interpreter.runtime.launch import LaunchReport
from ttools.interpreter.runtime.launch import run as run_launch
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.interpreter.runtime.monitor import Monitor

if TYPE_CHECKING:
    from ttools.interpreter.abi.arguments import ArgumentPlan
    from ttools.interpreter.abi.rereads import Rereads
    from ttools.interpreter.abi.watch_interface import Watch
    from ttools.interpreter.ir import Module
    from ttools.interpreter.run.skipped import SkippedAccess
    from ttools.interpreter.run.stats import Statistics
    from ttools.interpreter.run.variants import Variants
    from ttools.interpreter.runtime.launch import Kernel

_NONE = Instruments()


class LaunchOwner(Protocol):
    """The run of a launch, as far as launches and their observers ask for it."""

    launch_options: LaunchOptions
    statistics: Statistics
    unsafe: bool
    skipped: list[SkippedAccess]

    def warn(self, text: str) -> None:
        """Adds a warning unless it was given before."""


class Observer(Protocol):
    """Runs launches in the place of the launcher."""

    def launch(self, launch: ObservedLaunch) -> LaunchReport:
        """Runs a launch, normally by `launch.execute`.

        Raises:
            TtoolsError: as a launch that is not observed.
        """


@dataclass(kw_only=True)
class ObservedLaunch:
    """One launch: kernel, arguments, and how to run it.

    Attributes:
        function: its `JITFunction`; None for a module from a file.
        plan: names and types of the parameters.
        arguments: one per parameter, as the user passed them.
        values: the same as the launch works on them: GPU memory is replaced by host copies.
        variants: the kernel's module and effects.
        config: what the autotuner that makes the launch has chosen; None without one.
        choices: how many configurations it had, after its own early pruning.
        eagerly: runs the given programs, in the language of `selection`, as Python on
            `values`; None where there is no Python source.
        source: what Triton compiled: signature, constants, attributes; None of a file's kernel.
        host_line: `file:line` of the launch, where it is known.
        warps: of a program, on a GPU.
        blocks: of a program, on a GPU.
        stages: of the loops of a program, on a GPU.
        cooperative: whether a GPU runs all programs at once, or refuses the launch.
        record: the file that the launch comes from, if it comes from one: its accesses outside of
            the arguments are never made, whoever observes.
        guards: which accesses are guarded; all of them without.
        on_gpu: Whether the launch is meant for a GPU, which the CPU stands in for.
        violations: The launch rules of a GPU that it breaks; meant for one, it cannot be executed.
        monitor: what the last execution observed.
    """

    kernel: str
    function: Any
    grid: Sequence[int]
    plan: ArgumentPlan
    arguments: Sequence[Any]
    values: Sequence[Any]
    variants: Variants
    find_facts: Callable[[Sequence[Any]], Facts]
    options: EmitOptions
    run: LaunchOwner
    config: Mapping[str, Any] | None = None
    choices: int = 1
    eagerly: Callable[[str], None] | None = None
    source: Any = None
    host_line: str | None = None
    warps: int = 4
    blocks: int = 1
    stages: int = 1
    cooperative: bool = False
    record: Path | None = None
    guards: LaunchGuards | None = None
    on_gpu: bool = False
    violations: Sequence[Violation] = ()
    monitor: Monitor | None = field(default=None, init=False)
    _raw_parameters: list[int] | None = field(default=None, init=False)
    _facts: Facts | None = field(default=None, init=False)

    @property
    def written_storages(self) -> list[tuple[int, int]] | None:
        """Begin and end of each storage that the kernel may write; None if that is unknown."""
        effects = self.variants.effects
        if effects.unknown_writes:
            return None
        extents = {storage_extent(self.values[index]) for index in effects.written}
        if None in extents:
            return None
        return sorted(e for e in extents if e is not None and e[0] < e[1])

    @property
    def names(self) -> tuple[str, ...]:
        return self.plan.names

    @property
    def constants(self) -> dict[str, Any]:
        """Parameters that the kernel was compiled for one value of, and that value."""
        if self.source is None:
            return {}
        names = list(self.source.signature)
        return {
            "".join([names[path[0]], *(f"[{n}]" for n in path[1:])]): value
            for path, value in sorted(self.source.constants.items())
        }

    @property
    def regions(self) -> Sequence[Region]:
        """The storages of the arguments, for guards that judge no views."""
        return storage_regions(self.values, self.plan.pointers)

    def _guarded(self, instruments: Instruments) -> Instruments:
        """Return the instruments of an execution, with guards where they are needed."""
        if instruments.guards or (self.run.unsafe and self.record is None):
            return instruments
        chosen = GUARDS
        if self.record is None and self.guards is not None:
            extents = tuple(storage_extent(self.values[n]) for n in sorted(self.plan.pointers))
            found = self.guards.choose(extents, self.raw_parameters, self.grid)
            if found.instruments is None:
                return instruments
            chosen = found.instruments
        if instruments == _NONE:
            return chosen
        return replace(instruments, guards=True, explains=False, proved=chosen.proved)

    def native(
        self, instruments: Instruments, rewrite: Callable[[Module], None] | None = None
    ) -> Kernel:
        """Return the code that an execution with these instruments runs."""
        return self.variants.kernel(
            self.facts, self.options, self.run.statistics, self._guarded(instruments), rewrite
        )

    @property
    def raw_parameters(self) -> list[int]:
        """The raw value of each parameter: an address, or a number's bits."""
        # A cached property takes a lock, and there is one per launch.
        if self._raw_parameters is None:
            self._raw_parameters = self.plan.pack(self.values, guarded=True)
        return self._raw_parameters

    @property
    def facts(self) -> Facts:
        """What the values decide of how the kernel is compiled."""
        if self._facts is None:
            self._facts = self.find_facts(self.values)
        return self._facts

    def take_known(self, raw: Sequence[int], facts: Facts) -> None:
        """Tells what is known of a launch whose tensors lay where those of this one lie.

        Args:
            raw: its parameters.
            facts: see `facts`.
        """
        self._raw_parameters = self.plan.repack(self.values, raw)
        self._facts = facts

    def execute(
        self,
        instruments: Instruments,
        *,
        regions: Sequence[Region] = (),
        allocations: Callable[[], Sequence[tuple[int, int]]] = tuple,
        rewrite: Callable[[Module], None] | None = None,
        hidden: Sequence[int] = (),
        options: LaunchOptions | None = None,
        watch: Watch | None = None,
        rereads: Rereads | None = None,
    ) -> LaunchReport:
        """Runs all programs once; what they observed is then in `monitor`.

        Args:
            regions: of the parameters, for guards; NOWHERE for those that are no pointers.
            allocations: tells the memory that pointers of unknown origin may lead to, if there
                are such.
            rewrite: applies `instruments.rewrites`, which name it completely.
            hidden: raw values of the parameters that the rewrite appends.
            options: how programs run; as the run says by default.
            watch: takes the values of variables that the rewrite watches.
            rereads: chooses what accesses see that leave memory as it is.

        Raises:
            LaunchRefusedError: A GPU refuses the launch, which is meant for one.
            TtoolsError: see `launch.run`.
        """
        if self.violations and self.on_gpu:
            raise refused(self.kernel, self.violations)
        wanted, instruments = instruments, self._guarded(instruments)
        kernel = self.variants.kernel(
            self.facts, self.options, self.run.statistics, instruments, rewrite
        )
        if not wanted.guards:
            self.plan.require_memory(self.values)
        params = [*self.raw_parameters, *hidden]
        self.monitor = None
        how = options or self.run.launch_options
        if instruments.guards and not wanted.guards:
            self.monitor = guarding_monitor(
                kernel,
                self.regions,
                searches=self.record is None,
                logs=instruments.logs,
                watch=watch,
                rereads=rereads,
            )
            params.append(self.monitor.address)
            subject = Guarded(self.kernel, self.record, self.run.skipped)
            return subject.run(kernel, params, self.grid, how, self.monitor)
        if instruments.any:
            if instruments.guards and self.record is not None:
                regions = regions or self.regions
            if len(regions) < len(params):
                regions = [*regions, *(NOWHERE for _ in range(len(params) - len(regions)))]
            known = allocations() if kernel.probes.searches else ()
            logs = instruments.logs
            self.monitor = Monitor(
                *(kernel.emitted, kernel.probes, regions, known),
                logs=logs,
                watch=watch,
                rereads=rereads,
            )
            params.append(self.monitor.address)
        return run_launch(kernel, params, self.grid, how, self.monitor)
