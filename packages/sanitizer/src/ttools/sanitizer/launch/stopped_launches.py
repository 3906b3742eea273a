"""Findings for launches that were stopped: by `--timeout`, Ctrl-C or the end of the process.

A launch may be stopped while its kernel is compiled, while it runs, or while it is analysed. The
findings say what was not checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ttools.core.errors import KernelError
from ttools.core.findings.findings import Finding, Unfinished
from ttools.core.process.phases import PhaseStopped, Work
from ttools.interpreter.runtime.stopping import Stop
from ttools.sanitizer.checks.check import SHARED_KINDS
from ttools.sanitizer.launch.checked import CheckedLaunch

_WHY = {
    "timeout": "because it exceeded --timeout",
    "interrupt": "by Ctrl-C",
    "end": "because the process was asked to terminate",
}
#: Note for a launch that was not made because its kernel was not compiled.
NOT_MADE = "the launch was not made and not checked"
_UNFINISHED = ("the findings of this launch cover only what ran before",)


def stopped(checked: CheckedLaunch) -> list[Finding]:
    """Return the finding for a launch that was stopped while it ran; otherwise an empty list."""
    monitor = checked.launch.monitor
    stop = None if monitor is None else monitor.stop
    if stop is None:
        return []
    spec = checked.spec
    kind = "timeout" if stop.reason == "timeout" else "interrupted"
    shared_kind = SHARED_KINDS[kind]
    return [
        Finding(
            kind=kind,
            check="launch",
            severity=shared_kind.severity,
            message=f"the launch was stopped after {stop.seconds:.3g} s {_WHY[stop.reason]}",
            kernel=spec.kernel,
            location=stop.location or checked.kernel.module.kernel.location,
            program=stop.program,
            notes=(_where(stop), stop.progress, *_UNFINISHED),
            launch=spec.site.line,
            config=spec.site.config,
            help=shared_kind.help,
        )
    ]


def _where(stop: Stop) -> str:
    if stop.program is None:
        return "no program was in a loop that could be stopped"
    return "the program was in this loop"


def unfinished(work: Work, error: BaseException | None, checks: Sequence[str]) -> Unfinished:
    """Return the record of a launch whose checks were stopped by an error or are still running.

    Args:
        work: The work of the thread that makes the launch.
        error: The error that ended the work; None if the work continues.
        checks: Names of the checks that have not finished.
    """
    phase = work.broken or work.phase
    reason: Literal["timeout", "interrupted", "failed", "running"]
    if error is None:
        reason = "running"
    elif isinstance(error, PhaseStopped):
        reason = "timeout" if error.reason == "timeout" else "interrupted"
    elif isinstance(error, KernelError) and error.kind == "timeout":
        reason = "timeout"
    else:
        interrupted = isinstance(error, (KeyboardInterrupt, SystemExit))
        reason = "interrupted" if interrupted else "failed"
    return Unfinished(
        number=work.number,
        phase=phase.name,
        reason=reason,
        seconds=round(phase.seconds, 3),
        checks=tuple(checks),
    )


def cut_short(checked: CheckedLaunch, record: Unfinished, missing: Sequence[str]) -> Finding:
    """Return the finding for a launch whose compilation or analysis was stopped.

    Args:
        checked: The launch that was stopped.
        record: The phase that was stopped, and why.
        missing: Clauses on what was not done, for example "races in it were not looked for".
    """
    spec = checked.spec
    return phase_finding(
        spec.kernel,
        record,
        missing,
        location=checked.kernel.module.kernel.location,
        launch=spec.site.line,
        config=spec.site.config,
    )


def phase_finding(
    kernel: str, record: Unfinished, missing: Sequence[str], **fields: object
) -> Finding:
    """Return the finding of `cut_short`, even for a launch whose kernel was not compiled.

    Args:
        kernel: Name of the kernel.
        record: The phase that was stopped, and why.
        missing: Clauses on what was not done.
        fields: Further fields of the finding.
    """
    late = record.reason == "timeout"
    ended = "was stopped" if late else "was interrupted"
    why = " (--timeout)" if late else ""
    kind = "not_checked" if late else "interrupted"
    message = (
        f"{record.phase} of launch {record.number:,} of kernel `{kernel}` {ended} after "
        f"{record.seconds:.3g} s{why}"
    )
    return Finding(
        kind=kind,
        check="launch",
        severity=SHARED_KINDS[kind].severity,
        message="; ".join([message, *missing]),
        kernel=kernel,
        help=SHARED_KINDS[kind].help,
        **fields,  # type: ignore[arg-type]
    )
