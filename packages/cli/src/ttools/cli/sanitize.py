"""`ttools sanitize`: runs a script, a module, code or a `.ttir` file, and checks its kernels."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ttools.cli import exit_codes, options, sanitize_gpu, sanitize_options
from ttools.cli.console import require_folder, say, tell_error, write_findings, write_text
from ttools.cli.progress import progress
from ttools.cli.work import (
    Work,
    read_work,
    require_source,
    run_work,
    take_over_from_upstream,
)
from ttools.core.errors import KernelError, TtoolsError, UsageError

if TYPE_CHECKING:
    from ttools.core.findings import LaunchEntry
    from ttools.core.reports.report import Report
    from ttools.sanitizer import Sanitization
    from ttools.sanitizer.gpu import GpuSanitization

_UNCHECKED = "kernels that --only leaves out are not checked; without it, wild accesses are found"


def sanitize_command(
    words: options.WordsArgument = None,
    module: options.ModuleOption = None,
    code: options.CodeOption = None,
    check: sanitize_options.CheckOption = None,
    on: sanitize_options.OnOption = sanitize_options.On.CPU,
    timeout: sanitize_options.TimeoutOption = None,
    only: sanitize_options.CheckedOnlyOption = None,
    all_configs: sanitize_options.AllConfigsOption = False,
    view_bounds: sanitize_options.ViewBoundsOption = sanitize_options.ViewBounds.WARNING,
    max_findings: sanitize_options.MaxFindingsOption = 100,
    pdb_on_finding: sanitize_options.PdbOnFindingOption = False,
    suppressions: sanitize_options.SuppressionsOption = None,
    baseline: sanitize_options.BaselineOption = None,
    update_baseline: sanitize_options.UpdateBaselineOption = False,
    form: sanitize_options.FindingsFormatOption = sanitize_options.FindingsFormat.TEXT,
    output: options.OutputOption = None,
    fail_on: sanitize_options.FailOnOption = sanitize_options.Severity.ERROR,
    require_launches: sanitize_options.RequireLaunchesOption = False,
    threads: options.ThreadsOption = None,
    device_map: options.DeviceMapOption = None,
    first_config: options.FirstConfigOption = False,
    grid: options.GridOption = None,
    arg: options.ArgOption = None,
) -> None:
    """Find memory defects, races and uninitialised values in Triton kernels.

    Options before SCRIPT are ours, all that follows it is the script's. The exit status is the
    script's own if that is not 0; else 1 when there are findings from --fail-on on; 2 is a wrong
    use of this command, 3 a failure of ttools.
    """
    work = read_work(words or [], module=module, code=code, grid=grid, arguments=arg or [])
    if update_baseline and baseline is None:
        raise UsageError("--update-baseline needs --baseline FILE")
    require_folder(output, baseline)
    checked: Sanitization | GpuSanitization
    if on is sanitize_options.On.GPU:
        target = sanitize_gpu.target_of(
            work,
            {
                "--all-configs": all_configs,
                "--first-config": first_config,
                "--view-bounds": view_bounds is not sanitize_options.ViewBounds.WARNING,
                "--threads": threads,
                "--device-map": device_map,
                "--pdb-on-finding": pdb_on_finding,
            },
        )
        checked = sanitize_gpu.prepare(
            check, only, max_findings, suppressions, None if update_baseline else baseline, timeout
        )
        status, failure = sanitize_gpu.run(target, checked)
        dropped = checked.dropped
    else:
        if timeout is not None:
            raise UsageError("--timeout is for --on gpu")
        if pdb_on_finding:
            require_source(work, "--pdb-on-finding")
        take_over_from_upstream("ttools sanitizes")
        from ttools.sanitizer import sanitize

        checked = sanitize(
            checks=check or "default",
            only=only or None,
            view_bounds=view_bounds.value,
            threads=threads,
            all_configs=all_configs,
            first_config=first_config,
            max_findings=max_findings,
            suppressions=suppressions or (),
            baseline=None if update_baseline else baseline,
            pdb_on_finding=fail_on.value if pdb_on_finding else False,
        )
        advice = _UNCHECKED if only else None
        status, failure = _run(work, checked, device_map, advice, quiet=pdb_on_finding)
        dropped = checked.session.dropped
    for warning in (*checked.warnings, *_unchecked(only or [], checked.launches)):
        say("warning", warning)
    report = checked.report(target=str(work), exit_code=status, fail_on=fail_on.value)
    _write(report, form.value, output)
    if failure is not None:
        raise failure
    _tell_limits(dropped, max_findings)
    if update_baseline and baseline is not None:
        report = _update(baseline, report)
    raise typer.Exit(status or _judge(report, require_launches))


def _run(
    work: Work,
    checked: Sanitization,
    device_map: options.DeviceMap | None,
    advice: str | None,
    quiet: bool,
) -> tuple[int | None, TtoolsError | None]:
    """Runs it; a failure of ours must not lose what was found before it."""
    try:
        # Nothing may write between the prompts of a debugger.
        with checked, nullcontext() if quiet else progress(lambda: _state(checked)):
            return run_work(work, device_map, quiet=True, advice=advice), None
    except UsageError:
        raise
    except KernelError as error:
        # Of a .ttir file: in a script it is an exception of the script's.
        tell_error(error)
        return exit_codes.FINDINGS, None
    except TtoolsError as error:
        return None, error


def _state(checked: Sanitization) -> str:
    from ttools.core.reports.report import counted, launches_summary

    findings = counted(len(checked.session.findings), "finding")
    return f"checked {launches_summary(checked.launches)}: {findings}"


def _unchecked(only: Sequence[str], launches: Sequence[LaunchEntry]) -> Iterator[str]:
    """What was not checked, although the user may think so."""
    launched = {entry.kernel for entry in launches}
    for name in only:
        if name not in launched:
            yield f"no kernel `{name}` was launched (--only)"
    if "xdist.dsession" in sys.modules:
        yield (
            "pytest-xdist ran tests in processes of its own, whose kernels were not checked; "
            "`pytest --ttools-sanitize` checks them"
        )


def _write(report: Report, form: str, output: Path | None) -> None:
    from ttools.core.reports.registry import write_report
    from ttools.core.reports.report import NO_LAUNCH, summary

    text = write_report(report, form)
    if output is None and form == "text":
        write_findings(text)
        return
    write_text(text, output)
    if not report.launches:
        say("note", NO_LAUNCH)
    elif output is not None:
        say("note", f"{summary(report)}; see {output}")


def _tell_limits(dropped: int, max_findings: int) -> None:
    from ttools.core.reports.report import counted

    if dropped:
        kept, lost = counted(max_findings, "finding"), counted(dropped, "defect site")
        say("note", f"kept the first {kept} (--max-findings), not another {lost}")


def _judge(report: Report, require_launches: bool) -> int:
    """The exit status of a run whose script ended well."""
    from ttools.core.reports.report import NO_LAUNCH

    if require_launches and not report.launches:
        say("error", f"{NO_LAUNCH} (--require-launches)")
        return exit_codes.FINDINGS
    return exit_codes.FINDINGS if report.failing else exit_codes.OK


def _update(baseline: Path, report: Report) -> Report:
    """Writes the findings to the baseline; returns the report without them."""
    from ttools.core.baseline import write_baseline
    from ttools.core.reports.report import counted

    count = write_baseline(report.findings, baseline)
    say("note", f"{baseline} now holds {counted(count, 'finding')}, which no longer count")
    return replace(report, findings=())
