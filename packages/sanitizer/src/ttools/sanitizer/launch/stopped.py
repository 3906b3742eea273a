"""The finding of a launch that was stopped: by `--timeout`, by Ctrl-C, by the end of the process.

Owns its words. Must not know how launches are stopped.
"""

from __future__ import annotations

from ttools.core.findings.findings import Finding
from ttools.interpreter.runtime.stopping import Stop
from ttools.sanitizer.checks.check import SHARED_KINDS
from ttools.sanitizer.launch.checked import CheckedLaunch

_WHY = {
    "timeout": "because --timeout was over",
    "interrupt": "by Ctrl-C",
    "end": "because the process was asked to end",
}


def stopped(checked: CheckedLaunch) -> list[Finding]:
    """What to report of a launch that may have been stopped: one finding, or none."""
    monitor = checked.launch.monitor
    stop = None if monitor is None else monitor.stop
    if stop is None:
        return []
    subject = checked.subject
    kind = "timeout" if stop.reason == "timeout" else "interrupted"
    known = SHARED_KINDS[kind]
    return [
        Finding(
            kind=kind,
            check="launch",
            severity=known.severity,
            message=f"the launch was stopped after {stop.seconds:.3g} s {_WHY[stop.reason]}",
            kernel=subject.kernel,
            location=stop.location or checked.kernel.module.kernel.location,
            program=stop.program,
            notes=(_where(stop), stop.progress, *_UNFINISHED),
            launch=subject.host_line,
            config=subject.config,
            help=known.help,
        )
    ]


_UNFINISHED = ("the findings of this launch are those of what ran before",)


def _where(stop: Stop) -> str:
    if stop.program is None:
        return "no program was in a loop that could be stopped"
    return "the program was in this loop"
