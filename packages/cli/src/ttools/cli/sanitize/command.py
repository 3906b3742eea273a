"""`ttools sanitize`: runs a script, a module, code or a `.ttir` file, and checks its kernels.

After the run, the command writes the report, compares it with a baseline, and chooses the exit
status.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ttools.cli import completion, exit_codes, options
from ttools.cli.children import child_launches_text
from ttools.cli.console import (
    keep_stdout_for_report,
    require_folder,
    say,
    show_error,
    verbosity,
    write_findings,
    write_text,
)
from ttools.cli.progress import State, phase_state, progress
from ttools.cli.prove.proving import Proving
from ttools.cli.sanitize import gpu as sanitize_gpu
from ttools.cli.sanitize.sizes import prove_instead
from ttools.cli.selectors import refuse_unknown_kernels
from ttools.cli.work import (
    Work,
    read_work,
    require_source,
    run_work,
    take_over_from_upstream,
)
from ttools.core.errors import KernelError, TtoolsError, UsageError
from ttools.core.findings.findings import Severity
from ttools.core.process.child_launches import child_launches
from ttools.core.process.hard_exit import before_hard_exit, flush_streams
from ttools.core.process.interruptible import first_ctrl_c_ignored

if TYPE_CHECKING:
    from ttools.core.process.child_launches import ChildKernels
    from ttools.core.reports.report import Report
    from ttools.sanitizer import Sanitization
    from ttools.sanitizer.gpu import GpuSanitization


#: Maximum time in seconds that a process waits at its end for a report that another thread writes.
_PATIENCE_S = 5.0


@dataclass(kw_only=True)
class SanitizeEnding:
    """Ends one run: writes its report and determines the exit status.

    Attributes:
        checked: The run that checked the kernels.
        target: The program as the user named it.
        only: Names of the kernels to check; empty for all.
        form: Format of the report.
        output: File of the report; None for standard output.
        fail_on: The lowest severity at which findings fail the run.
        require_launches: If True, a run without launches fails.
        new_baseline: File for a new baseline, if requested.
        children: Kernels that child processes launch; None until the program runs.
    """

    checked: Sanitization | GpuSanitization
    target: str
    only: tuple[str, ...]
    form: str
    output: Path | None
    fail_on: Severity
    require_launches: bool
    new_baseline: Path | None
    children: ChildKernels | None = None
    _writing: Any = field(default_factory=threading.Lock, init=False)
    _concluded: int | None = field(default=None, init=False)
    _owner: int = field(default_factory=os.getpid, init=False)

    def conclude(self, status: int | None, failure: TtoolsError | None = None) -> int:
        """Write the report and all messages, unless they are written; return the exit status.

        Args:
            status: Exit status of the program; None if ttools failed.
            failure: The error that ended the run; it is raised after the report is written.
        """
        if os.getpid() != self._owner:
            return status or exit_codes.OK  # this is a fork of the program
        with self._writing, first_ctrl_c_ignored() as ignored:
            if self._concluded is None:
                self._concluded = self._conclude(status, failure)
            if ignored:
                self._concluded = self._concluded or exit_codes.INTERRUPTED
            return self._concluded

    @contextmanager
    def at_signals(self) -> Iterator[None]:
        """Write the report so far if SIGTERM or a second Ctrl-C terminates the process."""
        from ttools.core.reports import json, registry, text  # noqa: F401 - too late in a handler
        from ttools.interpreter.runtime.stopping import before_termination

        with before_termination(self._write_partial_report):
            yield

    def _write_partial_report(self, number: int) -> None:
        if not self._writing.acquire(timeout=_PATIENCE_S):
            return
        try:
            if self._concluded is None:
                say("note", f"{signal.Signals(number).name}: this is the report so far")
                self._concluded = self._conclude(128 + number)
        except TtoolsError as error:
            show_error(error)
        finally:
            flush_streams()

    def _conclude(self, status: int | None, failure: TtoolsError | None = None) -> int:
        for warning in (*self.checked.warnings, *self._unchecked()):
            say("warning", warning)
        for note in self.checked.notes:
            say("note", note)
        report = self.checked.report(target=self.target, exit_code=status, fail_on=self.fail_on)
        self._write(report)
        if failure is not None:
            raise failure
        if self.new_baseline is not None:
            if report.is_interrupted or report.unfinished:
                text = f"{self.new_baseline} was not written, because the run was not fully checked"
                say("error", text)
                return status or self._exit_status(report) or exit_codes.FINDINGS
            report = _write_baseline(report, self.new_baseline)
        return status or self._exit_status(report)

    def status_after_hard_exit(self, status: int) -> int:
        """Conclude a run whose program called `os._exit`; errors are shown instead of raised."""
        try:
            return self.conclude(status)
        except TtoolsError as error:
            show_error(error)
            return exit_codes.of_error(error)

    def _unchecked(self) -> Iterator[str]:
        """Warn about kernels that were not checked although the user may assume that they were."""
        launched = {entry.kernel for entry in self.checked.launches}
        for name in self.only:
            if name not in launched:
                yield f"no kernel `{name}` was launched (--only)"
        started = [] if self.children is None else self.children.of_started
        relevant = (name for name in started if not self.only or name in self.only)
        unchecked = [name for name in relevant if name not in launched]
        if unchecked:
            yield f"{child_launches_text(unchecked)}, which was not checked there"

    def _write(self, report: Report) -> None:
        from ttools.core.reports.registry import write_report
        from ttools.core.reports.report import no_launch, summary

        failed = report.failed_before_launches
        if failed and self.output is None and self.form == "text" and not report.findings:
            return  # the failure of the program explains why nothing was launched
        text = write_report(report, self.form, verbosity() == "verbose")
        if self.output is None and self.form == "text":
            write_findings(text)
            return
        write_text(text, self.output, announces=failed)
        if failed:
            return
        if not report.launches:
            say("note", no_launch(report))
        elif self.output is not None:
            say("note", f"{summary(report)}; the report is in {self.output}")

    def _exit_status(self, report: Report) -> int:
        """Return the exit status of a run whose program succeeded."""
        from ttools.core.reports.report import no_launch

        if self.require_launches and not report.launches:
            say("error", f"{no_launch(report)} (--require-launches)")
            return exit_codes.FINDINGS
        if report.failing:
            return exit_codes.FINDINGS
        ended_early = (
            reason.reason in ("interrupted", "running") for _, reason in report.unfinished
        )
        return exit_codes.INTERRUPTED if any(ended_early) else exit_codes.OK


def _write_baseline(report: Report, baseline: Path) -> Report:
    """Write the findings to the baseline; return the report without them."""
    from ttools.core.findings.baseline import write_baseline
    from ttools.core.reports.report import counted

    count = write_baseline((*report.findings, *report.dropped), baseline)
    say("note", f"{baseline} now holds {counted(count, 'finding')}, which no longer count")
    return replace(report, findings=(), dropped=())


_report = partial(typer.Option, rich_help_panel="Report")
_checks = partial(typer.Option, rich_help_panel="Checks")
_suppress = partial(typer.Option, rich_help_panel="Suppression")
_gpu = partial(typer.Option, rich_help_panel="On a GPU")

FindingsFormatOption = Annotated[
    Literal["text", "markdown", "json", "brief", "html", "sarif", "junit", "github"],
    _report("--format", help="Format of the report."),
]
FailOnOption = Annotated[
    Literal["error", "warning", "note"],
    _report("--fail-on", help="Exit with 1 on findings of at least this severity."),
]
RequireLaunchesOption = Annotated[
    bool, _report("--require-launches", help="Exit with 1 when no kernel was launched.")
]
CheckOption = Annotated[
    list[str] | None,
    _checks(
        "--check",
        metavar="CHECKS",
        autocompletion=completion.checks,
        help="memcheck, racecheck, initcheck, overflow, hints, deadlock, launch, numeric, "
        "accuracy, reproducibility, all (but the last two) or default; repeatable, or separated by "
        "commas.",
    ),
]
OnOption = Annotated[
    Literal["cpu", "gpu"],
    _gpu(
        "--on", help="Where kernels run: on the CPU, or on a GPU under NVIDIA's compute-sanitizer."
    ),
]
InstrumentOption = Annotated[
    list[str] | None,
    _gpu(
        "--instrument",
        metavar="MODES",
        autocompletion=completion.instruments,
        help="Run under Triton's own instrumentation, too: consan, gsan or iisan, or asan on AMD's "
        "GPUs; repeatable, or separated by commas.",
    ),
]
TimeoutOption = Annotated[
    float | None,
    _checks(
        "--timeout",
        min=0,
        metavar="SECONDS",
        help="Time limit for each step of a launch (compiling, running and each analysis), 600 by "
        "default. With --sizes and --all-sizes: for computing a verdict, 25 by default. With --on "
        "gpu: for the whole run, none by default. 0 for no limit.",
    ),
]
CheckedOnlyOption = Annotated[
    list[str] | None,
    _checks(
        "--only",
        metavar="KERNEL",
        autocompletion=completion.kernels,
        help="Check only kernels of this name; others run unchecked. Repeatable.",
    ),
]
SizesOption = Annotated[
    list[str] | None,
    _checks(
        "--sizes",
        metavar="NAME=FIRST:LAST",
        help="Check a function, FILE.py:FUNCTION, for all sizes of a range at once; repeatable.",
    ),
]
AssumeOption = Annotated[
    list[str] | None,
    _checks(
        "--assume",
        metavar="PARAMETER=LOW:HIGH[,distinct][,sorted]",
        help="With --sizes or --all-sizes: assume this about the integers in a tensor, such as "
        "`index=0:n-1`; repeatable.",
    ),
]
AllSizesOption = Annotated[
    bool,
    _checks(
        "--all-sizes",
        help="Check the launches of a script for all sizes; --sizes restricts a size to a range.",
    ),
]
AllConfigsOption = Annotated[
    bool, _checks("--all-configs", help="Run every config of autotuned kernels.")
]
PoisonOption = Annotated[
    bool,
    _checks(
        "--poison",
        help="Fill unwritten memory and undefined lanes with NaN, or arbitrary integers.",
    ),
]
ViewBoundsOption = Annotated[
    Literal["error", "warning", "off"] | None,
    _checks(
        "--view-bounds",
        show_default="stores: error, loads: warning",
        help="Severity of accesses outside a tensor's elements but inside its storage.",
    ),
]
SuggestToleranceOption = Annotated[
    bool,
    _checks(
        "--suggest-tolerance",
        help="With --check accuracy: print rtol and atol for a comparison of each output with a "
        "reference, and the reason.",
    ),
]
AccuracyRangeOption = Annotated[
    str | None,
    _checks(
        "--accuracy-range",
        metavar="GPU",
        help="With --check accuracy: estimate which results this GPU may compute for each output.",
    ),
]
MaxFindingsOption = Annotated[
    int,
    _checks(
        "--max-findings", min=1, metavar="N", help="Report at most N findings, most severe first."
    ),
]
PdbOnFindingOption = Annotated[
    bool,
    _checks(
        "--pdb-on-finding",
        help="Start pdb at the line and in the program of the first finding that --fail-on counts.",
    ),
]
SuppressionsOption = Annotated[
    list[Path] | None,
    _suppress("--suppressions", metavar="FILE", help="TOML file of suppression rules; repeatable."),
]
BaselineOption = Annotated[
    Path | None,
    _suppress("--baseline", metavar="FILE", help="File of known findings, which do not count."),
]
UpdateBaselineOption = Annotated[
    bool, _suppress("--update-baseline", help="Write this run's findings to the baseline.")
]


#: Formats of reports that contain suggested tolerances, and ranges of results.
_WITH_TOLERANCES = ("text", "markdown", "json", "html")
_UNCHECKED = "kernels that --only excludes are not checked; run without --only to find bad accesses"


def sanitize_command(
    words: options.WordsArgument = None,
    module: options.ModuleOption = None,
    code: options.CodeOption = None,
    check: CheckOption = None,
    on: OnOption = "cpu",
    instrument: InstrumentOption = None,
    timeout: TimeoutOption = None,
    only: CheckedOnlyOption = None,
    sizes: SizesOption = None,
    assume: AssumeOption = None,
    all_sizes: AllSizesOption = False,
    all_configs: AllConfigsOption = False,
    view_bounds: ViewBoundsOption = None,
    poison: PoisonOption = False,
    suggest_tolerance: SuggestToleranceOption = False,
    accuracy_range: AccuracyRangeOption = None,
    max_findings: MaxFindingsOption = 100,
    pdb_on_finding: PdbOnFindingOption = False,
    suppressions: SuppressionsOption = None,
    baseline: BaselineOption = None,
    update_baseline: UpdateBaselineOption = False,
    form: FindingsFormatOption = "text",
    output: options.OutputOption = None,
    fail_on: FailOnOption = "error",
    require_launches: RequireLaunchesOption = False,
    threads: options.ThreadsOption = None,
    dot: options.DotOption = None,
    device_map: options.DeviceMapOption = None,
    gpu: options.EmulatedGpuOption = None,
    first_config: options.FirstConfigOption = False,
    grid: options.GridOption = None,
    arg: options.ArgOption = None,
) -> None:
    """Find memory defects, races and uninitialised values in Triton kernels.

    Options before SCRIPT are for ttools; everything after it is for the script. The exit status is
    the script's own if that is not 0; else 1 if there are findings of the severity --fail-on or
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
            "--suggest-tolerance": suggest_tolerance,
            "--accuracy-range": accuracy_range is not None,
            "--pdb-on-finding": pdb_on_finding,
            "--suppressions": suppressions,
            "--baseline": baseline,
            "--grid": grid,
            "--arg": arg,
            "--gpu": gpu,
        }
        work = None
        if all_sizes:
            work = read_work(words or [], module=module, code=code, grid=grid, arguments=[])
        else:
            refused |= {"-m": module, "-c": code}
        proving = Proving(
            assume=assume or [],
            form=form,
            output=output,
            fail_on=fail_on,
            timeout=timeout,
            verbose=verbosity() == "verbose",
        )
        raise typer.Exit(
            prove_instead(proving, work, words or [], sizes or [], refused, device_map)
        )
    if assume:
        raise UsageError("--assume needs --sizes or --all-sizes")
    work = read_work(words or [], module=module, code=code, grid=grid, arguments=arg or [])
    refuse_unknown_kernels(only or (), work)
    if update_baseline and baseline is None:
        raise UsageError("--update-baseline needs --baseline FILE")
    in_report = {
        "--suggest-tolerance": suggest_tolerance,
        "--accuracy-range": accuracy_range is not None,
    }
    for option, is_given in in_report.items():
        if is_given and form not in _WITH_TOLERANCES:
            formats = ", ".join(_WITH_TOLERANCES)
            raise UsageError(f"{option} needs one of the formats {formats}, not {form}")
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
                "--suggest-tolerance": suggest_tolerance,
                "--accuracy-range": accuracy_range is not None,
                "--view-bounds": view_bounds is not None,
                "--threads": threads,
                "--dot": dot,
                "--device-map": device_map,
                "--gpu": gpu,
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
            raise UsageError("--instrument needs --on gpu")
        device_map = options.device_map_of(work, device_map, gpu)
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
            suggest_tolerance=suggest_tolerance,
            accuracy_range=accuracy_range,
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
    """Run the work; most errors of ttools are returned, so that earlier findings are not lost."""
    try:
        # Progress output would overwrite the prompts of a debugger.
        with checked, nullcontext() if quiet else progress(lambda: _state(checked)):
            return run_work(work, device_map, quiet=True, advice=advice, timeout=timeout), None
    except UsageError:
        raise
    except KernelError as error:
        # This error arrives here only from a .ttir file; in a script it is the script's exception.
        show_error(error)
        return exit_codes.FINDINGS, None
    except TtoolsError as error:
        return None, error


def _state(checked: Sanitization) -> State:
    from ttools.core.reports.report import counted

    phase = phase_state()
    if phase is not None:
        return phase
    launches = [entry for entry in checked.launches if entry.checked]
    kernels = counted(len({entry.spec.kernel for entry in launches}), "kernel")
    findings = counted(len(checked.session.findings), "finding")
    done = sum(entry.checked for entry in launches)
    return State(
        what="checked", done=done, unit="launches", one="launch", facts=(kernels, findings)
    )
