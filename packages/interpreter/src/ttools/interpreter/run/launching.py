"""Makes launches for the Triton plugin, `.ttir` files and records."""

from __future__ import annotations

from ttools.interpreter.run.bounds import UNGUARDED, Guarded, guarding_monitor
from ttools.interpreter.run.kernel_launch import KernelLaunch
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
    options = kernel.emit_options(run)
    extents, params = kernel.finder.extents(values), kernel.plan.pack(values)
    facts = kernel.finder.facts_of(extents)
    statistics = None if run is None else run.statistics
    how = launch.program_options if run is None else run.launch_options
    guards, regions = UNGUARDED
    if kernel.record is not None:
        guards, regions = kernel.guards.all(extents)
    elif kernel.guards.repeated(extents, params, grid) is UNGUARDED:
        pass  # it needs no guards, so the environment is not read
    elif not (unsafe_from_environment() if run is None else run.unsafe):
        guards, regions = kernel.guards.choose(extents, params, grid)
    if guards is None:
        native = kernel.variants.kernel(facts, options, statistics, seconds=how.seconds)
        return run_launch(native, params, grid, how)
    native = kernel.variants.kernel(facts, options, statistics, guards, seconds=how.seconds)
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
