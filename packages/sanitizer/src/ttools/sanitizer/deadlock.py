"""deadlock: findings from launches whose programs wait for each other in vain, or nearly so."""

from __future__ import annotations

from ttools.core.errors import KernelError
from ttools.core.findings import Finding
from ttools.core.location import SourceLocation
from ttools.interpreter.emit.effects import Provenance, synchronises
from ttools.interpreter.observation import ObservedLaunch
from ttools.interpreter.parking import LaunchWarning
from ttools.sanitizer.subject import Subject


def _waited_on(launch: ObservedLaunch, location: SourceLocation | None) -> int:
    """The parameter that the waiting loop at a place looks at, or -1."""
    kernel = launch.variants.module.kernel
    provenance = Provenance(kernel)
    for loop in kernel.walk():
        if loop.name != "scf.while" or loop.location != location:
            continue
        for op in loop.walk():
            if op is not loop and synchronises(op) and op.operands:
                known = [root for root in provenance.of(op.operands[0]) if root is not None]
                return known[0] if known else -1
    return -1


def deadlock_finding(error: KernelError, subject: Subject, launch: ObservedLaunch) -> Finding:
    """The finding for a launch that could not end."""
    first, *rest = error.message.splitlines()
    return Finding(
        kind="deadlock",
        check="deadlock",
        severity="error",
        message=first,
        kernel=subject.kernel,
        argument=subject.argument(_waited_on(launch, error.location)),
        location=error.location,
        notes=tuple(line.strip() for line in rest),
        launch=subject.host_line,
        config=subject.config,
        help=error.help,
    )


def co_residency_finding(
    warning: LaunchWarning, subject: Subject, launch: ObservedLaunch
) -> Finding:
    """The finding for a launch that ended only because more programs ran at once than threads."""
    return Finding(
        kind="deadlock",
        check="deadlock",
        severity="warning",
        message=warning.message,
        kernel=subject.kernel,
        argument=subject.argument(_waited_on(launch, warning.location)),
        location=warning.location,
        program=warning.program,
        launch=subject.host_line,
        config=subject.config,
        help="launch no more programs than the GPU runs at once, or split the kernel in two",
    )
