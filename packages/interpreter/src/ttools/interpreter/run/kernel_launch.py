"""Launches of kernels in this process, and the kernels that they launch.

A `KernelLaunch` contains the live arguments and runs the programs. If the run has an observer, the
launcher passes the launch to it, and the observer executes it with the instruments that it chooses,
possibly several times. The attribute `spec` is the same launch as data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec.structs import replace as replaced

from ttools.core.gpus.launch_rules import Violation
from ttools.core.spec import (
    ArgumentSpec,
    CallSite,
    CompileOptions,
    Extent,
    LaunchSpec,
    TensorSpec,
    argument_spec,
    grid_of,
    memory_spec,
    storage_extent,
)
from ttools.interpreter.abi.facts import FactFinder
from ttools.interpreter.abi.module import (
    DotMode,
    EmitOptions,
    Facts,
    Instruments,
    dot_from_environment,
)
from ttools.interpreter.abi.region import NOWHERE, Region
from ttools.interpreter.native import jit
from ttools.interpreter.run.bounds import (
    GUARDS,
    GuardChooser,
    Guarded,
    guarding_monitor,
    storage_regions,
)
from ttools.interpreter.run.launch_rules import refused
from ttools.interpreter.runtime.launch import LaunchReport
from ttools.interpreter.runtime.launch import run as run_launch
from ttools.interpreter.runtime.launch_options import Grouping, LaunchOptions
from ttools.interpreter.runtime.monitor import Monitor

if TYPE_CHECKING:
    from ttools.interpreter.abi.arguments import ArgumentPlan
    from ttools.interpreter.abi.reread_values import Rereads
    from ttools.interpreter.abi.watch_interface import Watch
    from ttools.interpreter.records.record_kernels import RecordedKernel
    from ttools.interpreter.run.skipped_accesses import SkippedAccess
    from ttools.interpreter.run.stats import Statistics
    from ttools.interpreter.run.variants import Variants
    from ttools.interpreter.runtime.launch import Kernel
    from ttools.ir import Module

_NONE = Instruments()
_PROGRAM_OPTIONS = LaunchOptions()
_SITE = CallSite()


class EagerTwin(Protocol):
    """Runs programs of a launch as Python."""

    def __call__(
        self,
        grid: Sequence[int],
        arguments: Sequence[Any],
        values: Sequence[Any],
        programs: str,
        grouping: Grouping | None = None,
        /,
    ) -> None:
        """Run a selection of programs; see `EagerKernel.run_programs`."""


class OwningRun(Protocol):
    """The part of `Run` that launches and their observers use."""

    observer: Observer | None
    launch_options: LaunchOptions
    schedule: Literal["fused", "materialised"]
    dot: DotMode
    emits: Any
    statistics: Statistics
    unsafe: bool
    skipped: list[SkippedAccess]

    def warn(self, text: str) -> None:
        """Add a warning, unless the run has the same warning already."""

    def limited(self, seconds: float | None) -> OwningRun:
        """Return the run with a time limit for each launch, unless it already has a limit."""


class Observer(Protocol):
    """Runs launches in place of the launcher."""

    def launch(self, launch: KernelLaunch) -> LaunchReport:
        """Run a launch, normally by `launch.execute`.

        Raises:
            TtoolsError: The launch failed. A launch without an observer raises the same error.
        """


@dataclass(frozen=True)
class UnguardedRun:
    """A launch whose accesses are all in bounds, and its native code.

    Attributes:
        emits: The options of its run that affect compilation; None if it belonged to no run.
        extents: First address and end of the storage behind each pointer.
        params: Raw values of the parameters.
        grid: Number of programs along one to three axes.
        native: The native code, which has no guards.
    """

    emits: object
    extents: tuple[Extent, ...]
    params: Sequence[int]
    grid: Sequence[int]
    native: Kernel


@dataclass(kw_only=True, eq=False)
class ExecutableKernel:
    """A kernel that can be launched on the CPU.

    Attributes:
        plan: Names and types of its parameters.
        variants: The kernel's module, effects and native code.
        options: The launch options with which it was compiled.
        function: The `JITFunction`; None for a module from a file.
        source: Triton's source object with signature, constants and attributes; None for a module
            from a file.
        eager_twin: Runs programs as Python; None if there is no Python source.
        record: The file that contains the kernel, if it is untrusted. Such a kernel may only access
            the memory of its arguments.
        recorded: The kernel of a record, which can be compiled for a GPU; None for kernels that are
            not from a record.
        finder: Determines the facts about the arguments of a launch.
        guards: Chooses which accesses of a launch are guarded.
        unguarded: The latest launch that needed no guards. A launch that equals it uses its native
            code.
    """

    name: str
    plan: ArgumentPlan
    variants: Variants
    options: CompileOptions
    function: Any = None
    source: Any = None
    eager_twin: EagerTwin | None = None
    record: Path | None = None
    recorded: RecordedKernel | None = None
    finder: FactFinder = field(init=False, repr=False)
    guards: GuardChooser = field(init=False, repr=False)
    unguarded: UnguardedRun | None = field(default=None, init=False, repr=False)
    _emit_options: dict[object, EmitOptions] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self.finder = FactFinder(self.variants.effects, self.plan.pointers)
        self.guards = GuardChooser(self.variants, self.plan)

    def emit_options(self, run: OwningRun | None) -> EmitOptions:
        """Return the options with which the kernel is emitted for a run."""
        key = run.emits if run else None
        options = self._emit_options.get(key)
        if options is None:
            options = self._emit_options[key] = EmitOptions(
                schedule=run.schedule if run else "fused",
                fp_fusion=self.options.fp_fusion,
                debug=self.options.debug,
                lanes=jit.host_lanes(),
                dot=run.dot if run else dot_from_environment(),
            )
        return options

    @property
    def constants(self) -> dict[str, Any]:
        """The values of the parameters that are constants in the compiled kernel, by name."""
        if self.source is None:
            return {}
        names = list(self.source.signature)
        return {
            "".join([names[path[0]], *(f"[{n}]" for n in path[1:])]): value
            for path, value in sorted(self.source.constants.items())
        }


@dataclass(eq=False)
class KernelLaunch:
    """One launch of a kernel in this process: its live arguments, and how to run its programs.

    Unlike a `LaunchSpec`, which `spec` returns, it contains tensors and native code.

    Attributes:
        kernel: The kernel that is launched.
        grid: Number of programs along one to three axes.
        values: One argument per parameter, as the launch uses them: GPU memory is replaced by host
            copies.
        owner: The run that counts the launch and receives its warnings; None if there is none.
        unflattened: The arguments as Triton passes them, including constants and tuples.
        site: The place in the program that makes the launch; only set for observers.
        passed: One argument per parameter, as the user passed them, if they differ from `values`.
        on_gpu: True if the launch is meant for a GPU that is mapped to the CPU.
        violations: The launch rules of a GPU that the launch breaks. If there are any, a launch
            that is meant for a GPU is rejected.
        program_options: Options for running the programs if the launch belongs to no run.
        monitor: Observations of the last execution; None before the first one.
    """

    kernel: ExecutableKernel
    grid: Sequence[int]
    values: Sequence[Any]
    owner: OwningRun | None
    unflattened: Sequence[Any] = ()
    # The following attributes are not constructor parameters, because few launches need them, and
    # assigning them would cost time in each launch.
    site: CallSite = field(default=_SITE, init=False)
    passed: Sequence[Any] | None = field(default=None, init=False)
    on_gpu: bool = field(default=False, init=False)
    violations: Sequence[Violation] = field(default=(), init=False)
    program_options: LaunchOptions = field(default=_PROGRAM_OPTIONS, init=False)
    monitor: Monitor | None = field(default=None, init=False)
    _raw_parameters: list[int] | None = field(default=None, init=False)
    _facts: Facts | None = field(default=None, init=False)
    _arguments: tuple[ArgumentSpec, ...] | None = field(default=None, init=False)

    @property
    def arguments(self) -> Sequence[Any]:
        """One argument per parameter, as the user passed them."""
        return self.values if self.passed is None else self.passed

    @property
    def run(self) -> OwningRun:
        """The run that the launch belongs to; launches that are observed always have one."""
        assert self.owner is not None
        return self.owner

    @property
    def eagerly(self) -> Callable[..., None] | None:
        """A function that runs a selection of programs as Python, on the memory of `values`.

        If its second argument is given, programs run in groups; see `EagerKernel.run_programs`.
        """
        run = self.kernel.eager_twin
        return None if run is None else partial(run, self.grid, self.unflattened, self.values)

    @property
    def spec(self) -> LaunchSpec:
        """The launch as data."""
        if self._arguments is None:
            storages: dict[int, int] = {}
            self._arguments = tuple(
                self._argument(index, storages) for index in range(len(self.values))
            )
        return replaced(self.signature, arguments=self._arguments)

    @property
    def signature(self) -> LaunchSpec:
        """The launch as data, without its arguments."""
        return LaunchSpec(
            kernel=self.kernel.name,
            grid=grid_of(self.grid),
            options=self.kernel.options,
            site=self.site,
        )

    def _argument(self, index: int, storages: dict[int, int]) -> ArgumentSpec:
        plan, argument = self.kernel.plan, self.arguments[index]
        kind = plan.types[index]
        if index not in plan.pointers and not isinstance(argument, (int, float)):
            argument = float(argument) if kind.startswith(("f", "bf")) else int(argument)
        return argument_spec(plan.names[index], argument, storages, kind)

    def memory(self, index: int) -> TensorSpec | None:
        """Describe the tensor of a parameter in the memory that the kernel accesses.

        If the tensor is in GPU memory, this is the host copy, which differs from the tensor in
        `spec`.

        Returns:
            The tensor; None if the argument is not a tensor, or if the size of its memory is
            unknown.
        """
        tensor, extent = memory_spec(self.arguments[index]), storage_extent(self.values[index])
        if tensor is None or extent is None:
            return None
        start, end = extent
        offset = self.raw_parameters[index] - start
        return replaced(tensor, storage=start, offset=offset, storage_bytes=end - start)

    def treating_memory_as_written(self) -> KernelLaunch:
        """Return the same launch, compiled as if it might write to each of its storages."""
        launch = copy(self)
        launch._facts = replace(self.facts, readonly=frozenset())
        return launch

    def limited(self, seconds: float | None) -> KernelLaunch:
        """Return the same launch with a time limit, unless its run has a limit.

        Args:
            seconds: Seconds after which the launch is stopped; None for no limit.
        """
        launch = copy(self)
        if self.owner is None:
            launch.program_options = LaunchOptions(seconds=seconds)
        else:
            launch.owner = self.owner.limited(seconds)
        return launch

    @property
    def written_storages(self) -> list[tuple[int, int]] | None:
        """Start and end of each storage that the kernel may write; None if these are unknown."""
        effects = self.kernel.variants.effects
        if effects.unknown_writes:
            return None
        extents = {storage_extent(self.values[index]) for index in effects.written}
        if None in extents:
            return None
        return sorted(e for e in extents if e is not None and e[0] < e[1])

    @property
    def regions(self) -> Sequence[Region]:
        """The storages of the arguments, for guards that do not check views."""
        return storage_regions(self.values, self.kernel.plan.pointers)

    def _guarded(self, instruments: Instruments) -> Instruments:
        """Return the instruments of an execution, with guards added if they are needed."""
        if instruments.guards or (self.run.unsafe and self.kernel.record is None):
            return instruments
        chosen = GUARDS
        if self.kernel.record is None:
            extents = tuple(
                storage_extent(self.values[n]) for n in sorted(self.kernel.plan.pointers)
            )
            guards = self.kernel.guards.choose(extents, self.raw_parameters, self.grid)
            if guards.instruments is None:
                return instruments
            chosen = guards.instruments
        if instruments == _NONE:
            return chosen
        return replace(instruments, guards=True, explains=False, proved=chosen.proved)

    def native(
        self, instruments: Instruments, rewrite: Callable[[Module], None] | None = None
    ) -> Kernel:
        """Return the native code for an execution with some instruments.

        Args:
            rewrite: Applies the rewrites that the instruments name.
        """
        return self._native(self._guarded(instruments), rewrite)

    def _native(self, instruments: Instruments, rewrite: Callable[[Module], None] | None) -> Kernel:
        kernel, run = self.kernel, self.run
        return kernel.variants.kernel(
            self._facts or self.facts,
            kernel.emit_options(run),
            run.statistics,
            instruments,
            rewrite,
            run.launch_options.seconds,
        )

    @property
    def raw_parameters(self) -> list[int]:
        """The raw value of each parameter: an address, or the bits of a number."""
        # `functools.cached_property` would acquire a lock for each launch in Python 3.10 and 3.11.
        if self._raw_parameters is None:
            self._raw_parameters = self.kernel.plan.pack(self.values, guarded=True)
        return self._raw_parameters

    @property
    def facts(self) -> Facts:
        """The facts about the arguments on which the kernel's native code depends."""
        if self._facts is None:
            self._facts = self.kernel.finder.facts(self.values)
        return self._facts

    def take_known(self, raw: Sequence[int], facts: Facts) -> None:
        """Reuse the facts of an earlier launch whose tensors had the same addresses.

        Args:
            raw: The raw parameters of that launch.
            facts: The facts of that launch.
        """
        self._raw_parameters = self.kernel.plan.repack(self.values, raw)
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
        """Run all programs once, and store their observations in `monitor`.

        Args:
            instruments: The instruments to use.
            regions: The memory that each parameter may access, for guards; NOWHERE for a parameter
                that is not a pointer.
            allocations: Returns the memory to which pointers of unknown origin may point; only
                called if there are such pointers.
            rewrite: Applies `instruments.rewrites`. Compiled code is looked up by these names, so
                they must determine the rewrite.
            hidden: Raw values of the parameters that the rewrite appends.
            options: Options for running the programs; those of the run by default.
            watch: Receives the values of variables that the rewrite watches.
            rereads: Chooses the values returned by accesses that do not change memory.

        Raises:
            LaunchRefusedError: The launch is meant for a GPU, and a GPU would reject it.
            TtoolsError: The launch fails, as described for `runtime.launch.run`.
        """
        if self.violations and self.on_gpu:
            raise refused(self.kernel.name, self.violations)
        wanted = instruments
        if not wanted.guards:
            instruments = self._guarded(wanted)
            self.kernel.plan.require_memory(self.values)
        kernel = self._native(instruments, rewrite)
        params = [*self.raw_parameters, *hidden]
        self.monitor = None
        how = options or self.run.launch_options
        if instruments.guards and not wanted.guards:
            self.monitor = guarding_monitor(
                kernel,
                self.regions,
                searches=self.kernel.record is None,
                logs=instruments.logs,
                watch=watch,
                rereads=rereads,
            )
            params.append(self.monitor.address)
            subject = Guarded(self.kernel.name, self.kernel.record, self.run.skipped)
            return subject.run(kernel, params, self.grid, how, self.monitor)
        if instruments.any:
            if instruments.guards and self.kernel.record is not None:
                regions = regions or self.regions
            if len(regions) < len(params):
                regions = [*regions, *(NOWHERE for _ in range(len(params) - len(regions)))]
            live_allocations = allocations() if kernel.probes.searches else ()
            logs = instruments.logs
            self.monitor = Monitor(
                *(kernel.emitted, kernel.probes, regions, live_allocations),
                logs=logs,
                watch=watch,
                rereads=rereads,
            )
            params.append(self.monitor.address)
        return run_launch(kernel, params, self.grid, how, self.monitor)
