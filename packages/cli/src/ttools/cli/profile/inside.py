"""`ttools profile --inside`: cycles inside kernels by scope or line, measured by Proton."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ttools.cli.console import say, say_interrupted, write_json, write_text
from ttools.cli.work import Work, run_work
from ttools.core.errors import UsageError

if TYPE_CHECKING:
    from ttools.profiler.gpu.inside import Inside


def profile_inside(
    work: Work,
    inside: Inside,
    *,
    only: list[str] | None,
    mode: str | None,
    keep: Path | None,
    form: str,
    output: Path | None,
    timeout: float | None,
) -> int:
    """Run the work, report the cycles inside its kernels, and return its exit status."""
    if form not in ("text", "json"):
        raise UsageError(f"--inside has no report in the format {form}; use text or json")
    from ttools.profiler.gpu.inside import InsideSession
    from ttools.profiler.report.inside import inside_report

    session = InsideSession(inside, only=only, mode=mode, keep=keep)
    with session.running():
        status = run_work(work, "off", quiet=True, timeout=timeout)
    say_interrupted(status, "the profile")
    report = inside_report(session.events)
    if form == "json":
        write_json(report.as_dict(), output)
    elif report.kernels:
        write_text(report.text(), output)
    if not report.kernels:
        of_kernels = f" of {' or '.join(only)}" if only else ""
        say(
            "note",
            f'no scope inside a kernel{of_kernels} was entered; write `with pl.scope("NAME"):` in '
            "a kernel (`import triton.profiler.language as pl`), or use --inside lines",
        )
    return status
