"""`ttools sanitize --sizes` and `--all-sizes`: all sizes of a range at once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ttools.cli import exit_codes
from ttools.cli.console import say, write_findings, write_text
from ttools.cli.progress import State, progress
from ttools.cli.work import (
    ADVICE,
    Work,
    require_source,
    run_work,
    surviving,
    take_over_from_upstream,
)
from ttools.core.errors import UsageError
from ttools.core.findings.findings import Severity
from ttools.core.process.script import Target

if TYPE_CHECKING:
    from ttools.core.reports.report import Report


def sanitize_sizes(
    sizes: Sequence[str],
    assume: Sequence[str],
    words: Sequence[str],
    given: Mapping[str, object],
    *,
    form: str,
    output: Path | None,
    fail_on: Severity,
) -> int:
    """Checks a function for all sizes and writes the report.

    Args:
        sizes: ranges, `n=1:4096`.
        assume: what tensors are promised to hold, `index=0:n-1,sorted`.
        words: what the command line names.
        given: values of the options that cannot be used with it.
        output: where it goes; standard output if None.
        fail_on: from which severity on findings fail the run.

    Returns:
        The exit status.

    Raises:
        UsageError: the words name no function, or a range is none.
    """
    _refuse(given, "--sizes")
    if len(words) != 1:
        raise UsageError("--sizes needs one FILE.py:FUNCTION")
    take_over_from_upstream("ttools sanitizes")
    from ttools.sanitizer.sizes.api import SECONDS, check_ranges, load_function, read_sizes
    from ttools.sanitizer.sizes.contracts import read_assumed

    ranges, assumed = read_sizes(sizes), read_assumed(assume)
    run = load_function(words[0], ranges)
    with _spent(SECONDS):
        found = check_ranges(run, ranges, target=words[0], fail_on=fail_on, assume=assumed)
    return _conclude(found.report, form, output)


def sanitize_all_sizes(
    work: Work,
    sizes: Sequence[str],
    assume: Sequence[str],
    given: Mapping[str, object],
    *,
    device_map: str | None,
    form: str,
    output: Path | None,
    fail_on: Severity,
) -> int:
    """Runs a script, checks what it launched for all sizes and writes the report.

    Args:
        sizes: ranges of sizes by the names that the report has for them.
        assume: what tensors are promised to hold, `index=0:n-1,sorted`.
        given: values of the options that cannot be used with it.
        device_map: what becomes of the CUDA devices that a script names.
        output: where it goes; standard output if None.
        fail_on: from which severity on findings fail the run.

    Returns:
        The exit status: the script's own if that is not 0.

    Raises:
        UsageError: what runs is no script, or a range is none.
    """
    _refuse(given, "--all-sizes")
    require_source(work, "--all-sizes")
    take_over_from_upstream("ttools sanitizes")
    from ttools.sanitizer.sizes.api import SECONDS, read_sizes
    from ttools.sanitizer.sizes.contracts import read_assumed
    from ttools.sanitizer.sizes.script.check import check_launches
    from ttools.sanitizer.sizes.script.seen import launches_seen

    ranges, assumed = read_sizes(sizes), read_assumed(assume)
    failures: list[BaseException] = []
    with surviving(device_map) as checked:
        advice = ADVICE if checked is None else None
        with launches_seen(assumed) as seen:
            status = run_work(work, device_map, quiet=True, advice=advice, on_error=failures.append)
        if failures and seen.is_followed and isinstance(work, Target) and work.name != "-":
            again = "it runs once more, with plain integers"
            say("note", f"the script failed while its numbers were followed: {again}")
            with launches_seen(assumed, follow=False) as seen:
                status = run_work(work, device_map, quiet=True, advice=advice)
            kind = type(failures[0]).__name__
            seen.remarks.append(f"no number was followed, as the script then fails with {kind}")
    with _spent(SECONDS):
        report = check_launches(
            seen, ranges, target=str(work), fail_on=fail_on, assume=assumed
        ).report
    if checked is not None:
        # Of accesses that no proof concerns, those of the script's own sizes are known.
        lines = {finding.location for finding in report.findings}
        own = [f for f in checked.findings if f.location not in lines]
        report = replace(report, findings=(*report.findings, *own))
    if not report.launches:
        say("note", "no launch was seen whose sizes are known")
    found = _conclude(replace(report, exit_code=status), form, output)
    return status or found


def _spent(most: float) -> AbstractContextManager[None]:
    """Shows how long it has computed."""
    began = time.process_time()

    def state() -> State:
        spent = int(time.process_time() - began)
        return State(what="all sizes", done=spent, total=int(most), unit="s at most")

    return progress(state, shared=False)


def _refuse(given: Mapping[str, object], option: str) -> None:
    for name, value in given.items():
        if value:
            raise UsageError(f"{name} cannot be used with {option}")


def _conclude(report: Report, form: str, output: Path | None) -> int:
    """Writes the report; the exit status."""
    from ttools.core.reports.registry import write_report
    from ttools.core.reports.report import summary

    text = write_report(report, form)
    if output is None and form == "text":
        write_findings(text)
    else:
        write_text(text, output)
    if output is not None:
        say("note", f"{summary(report)}; see {output}")
    return exit_codes.FINDINGS if report.failing else exit_codes.OK
