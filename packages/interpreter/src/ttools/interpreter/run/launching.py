"""Makes launches for the Triton plugin, `.ttir` files and records."""

from __future__ import annotations

from ttools.interpreter.run.bounds import UNGUARDED, Guarded, guarding_monitor
from ttools.interpreter.run.kernel_launch import KernelLaunch, UnguardedRun
from ttools.interpreter.run.launch_rules import refused, violations_of_grid, warnings_of
from ttools.interpreter.run.skipped_accesses import unsafe_from_environment
from ttools.interpreter.runtime.launch import LaunchReport
from ttools.interpreter.runtime.launch import run as run_launch


def make_launch(launch: KernelLaunch) -> LaunchReport:
    """Run all programs of a launch. If its run has an observer, the observer runs them.

    Raises:
        TtoolsError: The launch is rejected or fails.
    """
    kernel, run = launch.kernel, launch.owner
    options = kernel.options
    broken = violations_of_grid(launch.grid, options.warps, options.blocks)
    if broken or launch.violations:
        launch.violations = [*launch.violations, *broken]
        if run is None or run.observer is None:
            _refuse_or_warn(launch)
    if run is None:
        return _run(launch)
    report = _run(launch) if run.observer is None else run.observer.launch(launch)
    run.statistics.count_launch(kernel.name, report.programs, report.seconds)
    for warning in () if options.cooperative else report.warnings:
        run.warn(str(warning))
    return report


def _run(launch: KernelLaunch) -> LaunchReport:
    """Run a launch without an observer, with guards unless the run is unsafe."""
    kernel, run, values, grid = launch.kernel, launch.owner, launch.values, launch.grid
    extents, params = kernel.finder.extents(values), kernel.plan.pack(values)
    how = launch.program_options if run is None else run.launch_options
    emits = None if run is None else run.emits
    latest = kernel.unguarded
    if (
        latest is not None
        and latest.grid == grid
        and latest.params == params
        and latest.extents == extents
        and latest.emits == emits
    ):
        return run_launch(latest.native, params, grid, how)
    options, facts = kernel.emit_options(run), kernel.finder.facts_of(extents)
    statistics = None if run is None else run.statistics
    guards, regions = UNGUARDED
    needs_none = False
    if kernel.record is not None:
        guards, regions = kernel.guards.all(extents)
    elif not (unsafe_from_environment() if run is None else run.unsafe):
        guards, regions = kernel.guards.choose(extents, params, grid)
        needs_none = guards is None
    native = kernel.variants.kernel(facts, options, statistics, guards, seconds=how.seconds)
    if guards is None:
        if needs_none:
            kernel.unguarded = UnguardedRun(emits, extents, params, grid, native)
        return run_launch(native, params, grid, how)
    monitor = guarding_monitor(native, regions, searches=kernel.record is None, logs=False)
    params.append(monitor.address)
    subject = Guarded(kernel.name, kernel.record, None if run is None else run.skipped)
    return subject.run(native, params, grid, how, monitor)


def _refuse_or_warn(launch: KernelLaunch) -> None:
    """Reject a launch that breaks rules of a GPU if it is meant for one; otherwise warn."""
    if launch.on_gpu:
        raise refused(launch.kernel.name, launch.violations)
    if launch.owner is not None:
        for warning in warnings_of(launch.kernel.name, launch.violations):
            launch.owner.warn(warning)
