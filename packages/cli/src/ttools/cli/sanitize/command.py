"""`ttools sanitize`: runs a script, a module, code or a `.ttir` file, and checks its kernels."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

import typer

from ttools.cli import exit_codes, options
from ttools.cli.console import keep_stdout_for_report, require_folder, show_error
from ttools.cli.progress import State, phase_state, progress
from ttools.cli.sanitize import gpu as sanitize_gpu
from ttools.cli.sanitize import options as sanitize_options
from ttools.cli.sanitize.ending import SanitizeEnding
from ttools.cli.sanitize.sizes import sanitize_all_sizes, sanitize_sizes
from ttools.cli.work import (
    Work,
    read_work,
    require_source,
    run_work,
    take_over_from_upstream,
)
from ttools.core.errors import KernelError, TtoolsError, UsageError
from ttools.core.process.child_launches import child_launches
from ttools.core.process.hard_exit import before_hard_exit

if TYPE_CHECKING:
    from ttools.sanitizer import Sanitization
    from ttools.sanitizer.gpu import GpuSanitization

_UNCHECKED = "kernels that --only leaves out are not checked; without it, wild accesses are found"


def sanitize_command(
    words: options.WordsArgument = None,
    module: options.ModuleOption = None,
    code: options.CodeOption = None,
    check: sanitize_options.CheckOption = None,
    on: sanitize_options.OnOption = "cpu",
    instrument: sanitize_options.InstrumentOption = None,
    timeout: sanitize_options.TimeoutOption = None,
    only: sanitize_options.CheckedOnlyOption = None,
    sizes: sanitize_options.SizesOption = None,
    assume: sanitize_options.AssumeOption = None,
    all_sizes: sanitize_options.AllSizesOption = False,
    all_configs: sanitize_options.AllConfigsOption = False,
    view_bounds: sanitize_options.ViewBoundsOption = None,
    poison: sanitize_options.PoisonOption = False,
    max_findings: sanitize_options.MaxFindingsOption = 100,
    pdb_on_finding: sanitize_options.PdbOnFindingOption = False,
    suppressions: sanitize_options.SuppressionsOption = None,
    baseline: sanitize_options.BaselineOption = None,
    update_baseline: sanitize_options.UpdateBaselineOption = False,
    form: sanitize_options.FindingsFormatOption = "text",
    output: options.OutputOption = None,
    fail_on: sanitize_options.FailOnOption = "error",
    require_launches: sanitize_options.RequireLaunchesOption = False,
    threads: options.ThreadsOption = None,
    dot: options.DotOption = None,
    device_map: options.DeviceMapOption = None,
    first_config: options.FirstConfigOption = False,
    grid: options.GridOption = None,
    arg: options.ArgOption = None,
) -> None:
    """Find memory defects, races and uninitialised values in Triton kernels.

    Options before SCRIPT are for ttools, everything after it is for the script. The exit status
    is the script's own if that is not 0; else 1 if there are findings of the severity --fail-on or
    above, 2 for wrong usage, 3 for a failure of ttools.
    """
    if sizes or all_sizes:
        require_folder(output)
        keep_stdout_for_report(form, output)
        refused: dict[str, object] = {
            "--check": check,
            "--on gpu": on == "gpu",
            "--instrument": instrument,
            "--only": only,
            "--all-configs": all_configs,
            "--view-bounds": view_bounds,
            "--poison": poison,
            "--pdb-on-finding": pdb_on_finding,
            "--suppressions": suppressions,
            "--baseline": baseline,
            "--grid": grid,
            "--arg": arg,
        }
        if all_sizes:
            script = read_work(words or [], module=module, code=code, grid=grid, arguments=[])
            status = sanitize_all_sizes(
                script,
                sizes or [],
                assume or [],
                refused,
                device_map=device_map,
                form=form,
                output=output,
                fail_on=fail_on,
                timeout=timeout,
            )
        else:
            refused |= {"-m": module, "-c": code}
            status = sanitize_sizes(
                sizes or [],
                assume or [],
                words or [],
                refused,
                form=form,
                output=output,
                fail_on=fail_on,
                timeout=timeout,
            )
        raise typer.Exit(status)
    if assume:
        raise UsageError("--assume needs --sizes or --all-sizes")
    work = read_work(words or [], module=module, code=code, grid=grid, arguments=arg or [])
    if update_baseline and baseline is None:
        raise UsageError("--update-baseline needs --baseline FILE")
    require_folder(output, baseline)
    keep_stdout_for_report(form, output)
    checked: Sanitization | GpuSanitization
    run: Callable[[], tuple[int | None, TtoolsError | None]]
    if on == "gpu":
        target = sanitize_gpu.target_of(
            work,
            {
                "--all-configs": all_configs,
                "--first-config": first_config,
                "--poison": poison,
                "--view-bounds": view_bounds is not None,
                "--threads": threads,
                "--dot": dot,
                "--device-map": device_map,
                "--pdb-on-finding": pdb_on_finding,
            },
        )
        checked = sanitize_gpu.prepare(
            check,
            only,
            max_findings,
            suppressions,
            None if update_baseline else baseline,
            timeout or None,
            instrument,
        )
        run = partial(sanitize_gpu.run, target, checked)
    else:
        if instrument:
            raise UsageError("--instrument is for --on gpu")
        if pdb_on_finding:
            require_source(work, "--pdb-on-finding")
        take_over_from_upstream("ttools sanitizes")
        from ttools.sanitizer import DEFAULT_TIMEOUT, sanitize

        checked = sanitize(
            checks=check or "default",
            only=only or None,
            view_bounds=view_bounds,
            threads=threads,
            dot=dot,
            all_configs=all_configs,
            first_config=first_config,
            poison=poison,
            max_findings=max_findings,
            suppressions=suppressions or (),
            baseline=None if update_baseline else baseline,
            pdb_on_finding=fail_on if pdb_on_finding else False,
            timeout=DEFAULT_TIMEOUT if timeout is None else timeout,
        )
        advice = _UNCHECKED if only else None
        run = partial(_run, work, checked, device_map, advice, timeout, quiet=pdb_on_finding)
    ending = SanitizeEnding(
        checked=checked,
        target=str(work),
        only=tuple(only or ()),
        form=form,
        output=output,
        fail_on=fail_on,
        require_launches=require_launches,
        new_baseline=baseline if update_baseline else None,
    )
    with (
        child_launches() as ending.children,
        before_hard_exit(ending.status_after_hard_exit),
        ending.at_signals() if on == "cpu" else nullcontext(),
    ):
        try:
            result = run()
        except KeyboardInterrupt:  # before the script began, or after it ended
            result = exit_codes.INTERRUPTED, None
        status = ending.conclude(*result)
    raise typer.Exit(status)


def _run(
    work: Work,
    checked: Sanitization,
    device_map: str | None,
    advice: str | None,
    timeout: float | None,
    quiet: bool,
) -> tuple[int | None, TtoolsError | None]:
    """Runs it; a failure of ours must not lose what was found before it."""
    try:
        # Nothing may write between the prompts of a debugger.
        with checked, nullcontext() if quiet else progress(lambda: _state(checked)):
            return run_work(work, device_map, quiet=True, advice=advice, timeout=timeout), None
    except UsageError:
        raise
    except KernelError as error:
        # Of a .ttir file: in a script it is an exception of the script's.
        show_error(error)
        return exit_codes.FINDINGS, None
    except TtoolsError as error:
        return None, error


def _state(checked: Sanitization) -> State:
    from ttools.core.reports.report import counted

    phase = phase_state()
    if phase is not None:
        return phase
    launches = [each for each in checked.launches if each.checked]
    kernels = counted(len({each.kernel for each in launches}), "kernel")
    findings = counted(len(checked.session.findings), "finding")
    done = sum(each.checked for each in launches)
    return State(
        what="checked", done=done, unit="launches", one="launch", facts=(kernels, findings)
    )
