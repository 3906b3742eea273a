"""How a launch is made, whoever asks for it: the plugin, a `.ttir` file, a record.

Owns the choice of who runs it: the observer of the run, if it has one, or the engine. Must not know
where kernel and arguments come from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ttools.core.gpus.launch_rules import Violation
from ttools.interpreter.abi.arguments import ArgumentPlan
from ttools.interpreter.abi.facts import FactFinder
from ttools.interpreter.abi.module import EmitOptions
from ttools.interpreter.native import jit
from ttools.interpreter.run.bounds import UNGUARDED, Guarded, LaunchGuards, guarding_monitor
from ttools.interpreter.run.interpretation import Run, dot_mode
from ttools.interpreter.run.launch_rules import refused, violations_of_grid, warnings_of
from ttools.interpreter.run.observation import ObservedLaunch
from ttools.interpreter.run.skipped import unsafe_from_environment
from ttools.interpreter.run.variants import Variants
from ttools.interpreter.runtime.launch import LaunchReport
from ttools.interpreter.runtime.launch import run as run_launch
from ttools.interpreter.runtime.launch_options import LaunchOptions

_DEFAULT = LaunchOptions()

#: Runs chosen programs as Python: grid, arguments as Triton has them, values, selection.
EagerTwin = Callable[[Sequence[int], Sequence[Any], Sequence[Any], str], None]


@dataclass(kw_only=True, eq=False)
class LaunchableKernel:
    """A kernel that launches can be made of.

    Attributes:
        plan: names and types of its parameters.
        variants: its module and effects.
        fp_fusion: the launch option `enable_fp_fusion`.
        debug: whether `device_assert` acts.
        function: its `JITFunction`; None for a module from a file.
        source: what Triton compiled; None of a file's kernel.
        eager_twin: the same as Python; None where there is no Python source.
        warps: of a program, as the launch asks for them.
        blocks: of a program, as the launch asks for them: `num_ctas`.
        stages: of the loops of a program, as the launch asks for them: `num_stages`.
        cooperative: whether it asks for all programs at once (`launch_cooperative_grid`).
        record: the file that it comes from if it is a stranger's, which is never let out of the
            memory of its arguments.
        finder: finds what the values of a launch decide.
        guards: which accesses of a launch are guarded.
    """

    name: str
    plan: ArgumentPlan
    variants: Variants
    fp_fusion: bool
    debug: bool
    function: Any = None
    source: Any = None
    eager_twin: EagerTwin | None = None
    warps: int = 4
    blocks: int = 1
    stages: int = 1
    cooperative: bool = False
    record: Path | None = None
    finder: FactFinder = field(init=False, repr=False)
    guards: LaunchGuards = field(init=False, repr=False)
    _options: dict[object, EmitOptions] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self.finder = FactFinder(self.variants.effects, self.plan.pointers)
        self.guards = LaunchGuards(self.variants, self.plan)

    def options(self, run: Run | None) -> EmitOptions:
        """How the kernel is emitted for a run."""
        key = run.emits if run else None
        options = self._options.get(key)
        if options is None:
            options = self._options[key] = EmitOptions(
                schedule=run.schedule if run else "fused",
                fp_fusion=self.fp_fusion,
                debug=self.debug,
                lanes=jit.host_lanes(),
                dot=dot_mode(run),
            )
        return options


@dataclass
class LaunchArguments:
    """What one launch is given.

    Attributes:
        grid: one to three extents.
        values: one per parameter, as the launch works on them.
        unflattened: the same as Triton has them, constants and tuples included.
        passed: the values as the user passed them, if they are others.
        config: of the autotuner that makes the launch.
        choices: how many configurations that was chosen from.
        host_line: `file:line` of the launch, where it is known.
        on_gpu: Whether the launch is meant for a GPU, which the CPU stands in for.
        violations: The launch rules of a GPU that the arguments break.
        options: How the programs run if the launch belongs to no run.
    """

    grid: Sequence[int]
    values: Sequence[Any]
    unflattened: Sequence[Any] = ()
    # Few launches have these, and each launch pays for what its constructor takes.
    passed: Sequence[Any] | None = field(default=None, init=False)
    config: Mapping[str, Any] | None = field(default=None, init=False)
    choices: int = field(default=1, init=False)
    host_line: str | None = field(default=None, init=False)
    on_gpu: bool = field(default=False, init=False)
    violations: Sequence[Violation] = field(default=(), init=False)
    options: LaunchOptions = field(default=_DEFAULT, init=False)


def make_launch(
    kernel: LaunchableKernel, arguments: LaunchArguments, run: Run | None
) -> LaunchReport:
    """Runs all programs of a launch, and returns when they are done.

    Args:
        run: which it belongs to, which counts it and takes its warnings; None outside of any.

    Raises:
        TtoolsError: see `ttools.core.errors`.
    """
    options = kernel.options(run)
    broken = violations_of_grid(arguments.grid, kernel.warps, kernel.blocks)
    if broken or arguments.violations:
        arguments.violations = [*arguments.violations, *broken]
        if run is None or run.observer is None:
            _refuse_or_warn(kernel.name, arguments, run)
    if run is None:
        return _run(kernel, arguments, options, None)
    if run.observer is not None:
        report = run.observer.launch(_observed(kernel, arguments, options, run))
    else:
        report = _run(kernel, arguments, options, run)
    run.statistics.count_launch(kernel.name, report.programs, report.seconds)
    for warning in () if kernel.cooperative else report.warnings:
        run.warn(str(warning))
    return report


def _run(
    kernel: LaunchableKernel, arguments: LaunchArguments, options: EmitOptions, run: Run | None
) -> LaunchReport:
    """Run a launch that nobody observes; guarded, unless nobody wants that."""
    values = arguments.values
    extents, params = kernel.finder.extents(values), kernel.plan.pack(values)
    facts = kernel.finder.facts_of(extents)
    statistics = None if run is None else run.statistics
    how = arguments.options if run is None else run.launch_options
    unsafe = unsafe_from_environment() if run is None else run.unsafe
    guards, regions = UNGUARDED
    if kernel.record is not None:
        guards, regions = kernel.guards.all(extents)
    elif not unsafe:
        guards, regions = kernel.guards.choose(extents, params, arguments.grid)
    if guards is None:
        native = kernel.variants.kernel(facts, options, statistics)
        return run_launch(native, params, arguments.grid, how)
    native = kernel.variants.kernel(facts, options, statistics, guards)
    monitor = guarding_monitor(native, regions, searches=kernel.record is None, logs=False)
    params.append(monitor.address)
    subject = Guarded(kernel.name, kernel.record, None if run is None else run.skipped)
    return subject.run(native, params, arguments.grid, how, monitor)


def _refuse_or_warn(kernel: str, arguments: LaunchArguments, run: Run | None) -> None:
    """Does with a launch that no GPU makes what a GPU does, if the launch is meant for one."""
    if arguments.on_gpu:
        raise refused(kernel, arguments.violations)
    if run is not None:
        for warning in warnings_of(kernel, arguments.violations):
            run.warn(warning)


def _observed(
    kernel: LaunchableKernel,
    arguments: LaunchArguments,
    options: EmitOptions,
    run: Run,
) -> ObservedLaunch:
    grid, values, twin = arguments.grid, arguments.values, kernel.eager_twin
    return ObservedLaunch(
        kernel=kernel.name,
        function=kernel.function,
        grid=grid,
        plan=kernel.plan,
        arguments=values if arguments.passed is None else arguments.passed,
        values=values,
        variants=kernel.variants,
        find_facts=kernel.finder.facts,
        options=options,
        run=run,
        config=arguments.config,
        choices=arguments.choices,
        eagerly=None if twin is None else partial(twin, grid, arguments.unflattened, values),
        source=kernel.source,
        warps=kernel.warps,
        blocks=kernel.blocks,
        stages=kernel.stages,
        cooperative=kernel.cooperative,
        on_gpu=arguments.on_gpu,
        violations=arguments.violations,
        host_line=arguments.host_line,
        record=kernel.record,
        guards=kernel.guards,
    )
