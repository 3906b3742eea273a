"""`ttools sanitize --on gpu`: runs a program under compute-sanitizer instead of on the CPU.

Options that only apply to the CPU are rejected. The report is written as for the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ttools.cli.console import say
from ttools.cli.launch_files import Replay
from ttools.cli.work import Work
from ttools.core.errors import TtoolsError, UsageError
from ttools.core.process.script import Target

if TYPE_CHECKING:
    from ttools.sanitizer.gpu import GpuSanitization


def target_of(work: Work, cpu_options: Mapping[str, object]) -> Target:
    """Return the program to run.

    Args:
        work: Script, module or launch that the command line names.
        cpu_options: Options that only apply to the CPU, with their values.

    Raises:
        UsageError: The work is not a program, or an option that only applies to the CPU was given.
    """
    if not isinstance(work, Target):
        what = "a record" if isinstance(work, Replay) else "a .ttir file"
        raise UsageError(f"--on gpu needs a program; {what} can be checked only on the CPU")
    present = [name for name, value in cpu_options.items() if value]
    if present:
        raise UsageError(f"{present[0]} applies only to the CPU; it cannot be used with --on gpu")
    return work


def prepare(
    checks: Sequence[str] | None,
    only: Sequence[str] | None,
    max_findings: int,
    suppressions: Sequence[Path] | None,
    baseline: Path | None,
    timeout: float | None,
    instrument: Sequence[str] | None,
) -> GpuSanitization:
    """Return a run that can be started; progress goes to standard error."""
    from ttools.sanitizer.checks.registry import parse_checks
    from ttools.sanitizer.gpu.api import GpuOptions, GpuSanitization
    from ttools.sanitizer.gpu.instrumentation import parse_modes

    return GpuSanitization(
        GpuOptions(
            checks=parse_checks(checks or ["default"]),
            only=frozenset(only) if only else None,
            max_findings=max_findings,
            suppressions=tuple(suppressions or ()),
            baseline=baseline,
            timeout=timeout,
            instrument=parse_modes(instrument or ()),
        ),
        announce=lambda text: say("note", text),
    )


def run(target: Target, checked: GpuSanitization) -> tuple[int | None, TtoolsError | None]:
    """Run the program; return errors of ttools if there are launches or findings to report."""
    try:
        return checked.run(target), None
    except UsageError:
        raise
    except TtoolsError as error:
        if not (checked.launches or checked.findings):
            raise
        return None, error
