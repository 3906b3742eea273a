"""deadlock: findings from launches whose programs wait for each other in vain, or nearly so."""

from __future__ import annotations

from ttools.core.errors import KernelError
from ttools.core.findings import Finding
from ttools.interpreter.parking import LaunchWarning
from ttools.sanitizer.subject import Subject


def deadlock_finding(error: KernelError, subject: Subject) -> Finding:
    """The finding for a launch that could not end."""
    first, *rest = error.message.splitlines()
    return Finding(
        kind="deadlock",
        check="deadlock",
        severity="error",
        message=first,
        kernel=subject.kernel,
        location=error.location,
        notes=tuple(line.strip() for line in rest),
        launch=subject.host_line,
        config=subject.config,
        help=error.help,
    )


def co_residency_finding(warning: LaunchWarning, subject: Subject) -> Finding:
    """The finding for a launch that ended only because more programs ran at once than threads."""
    return Finding(
        kind="deadlock",
        check="deadlock",
        severity="warning",
        message=warning.message,
        kernel=subject.kernel,
        location=warning.location,
        program=warning.program,
        launch=subject.host_line,
        config=subject.config,
        help="launch no more programs than the GPU runs at once, or split the kernel in two",
    )
