"""`ttools sanitize --sizes` and `--all-sizes`: all sizes of a range at once."""

from __future__ import annotations

import math
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
    timeout: float | None,
) -> int:
    """Checks a function for all sizes and writes the report.

    Args:
        sizes: ranges, `n=1:4096`.
        assume: what tensors are promised to hold, `index=0:n-1,sorted`.
        words: what the command line names.
        given: values of the options that cannot be used with it.
        output: where it goes; standard output if None.
        fail_on: from which severity on findings fail the run.
        timeout: seconds of computing; None for the default, 0 for any time.

    Returns:
        The exit status.

    Raises:
        UsageError: the words name no function, or a range is none.
    """
    _refuse(given, "--sizes")
    if len(words) != 1:
        raise UsageError("--sizes needs one FILE.py:FUNCTION")
    take_over_from_upstream("ttools sanitizes")
    from ttools.sanitizer.sizes.api import check_ranges, load_function, read_sizes
    from ttools.sanitizer.sizes.contracts import read_assumed

    ranges, assumed = read_sizes(sizes), read_assumed(assume)
    run = load_function(words[0], ranges)
    seconds = _limit(timeout)
    try:
        with _spent(seconds):
            report = check_ranges(
                *(run, ranges),
                target=words[0],
                fail_on=fail_on,
                seconds=seconds,
                assume=assumed,
            ).report
    except KeyboardInterrupt:
        report = _interrupted(ranges, words[0], fail_on)
    return _conclude(report, form, output)


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
    timeout: float | None,
) -> int:
    """Runs a script, checks what it launched for all sizes and writes the report.

    Args:
        sizes: ranges of sizes by the names that the report has for them.
        assume: what tensors are promised to hold, `index=0:n-1,sorted`.
        given: values of the options that cannot be used with it.
        device_map: what becomes of the CUDA devices that a script names.
        output: where it goes; standard output if None.
        fail_on: from which severity on findings fail the run.
        timeout: seconds of computing for each launch; None for the default, 0 for any time.

    Returns:
        The exit status: the script's own if that is not 0.

    Raises:
        UsageError: what runs is no script, or a range is none.
    """
    _refuse(given, "--all-sizes")
    require_source(work, "--all-sizes")
    take_over_from_upstream("ttools sanitizes")
    from ttools.sanitizer.sizes.api import read_sizes
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
    if status == exit_codes.INTERRUPTED:
        seen.left_out.append("launches that the script had not made when it was interrupted")
    seconds = _limit(timeout)
    try:
        with _spent(seconds):
            report = check_launches(
                *(seen, ranges),
                target=str(work),
                fail_on=fail_on,
                seconds=seconds,
                assume=assumed,
            ).report
    except KeyboardInterrupt:
        report, status = _interrupted(ranges, str(work), fail_on), exit_codes.INTERRUPTED
    if checked is not None:
        # Of accesses that no proof concerns, those of the script's own sizes are known.
        lines = {finding.location for finding in report.findings}
        own = [f for f in checked.findings if f.location not in lines]
        report = replace(report, findings=(*report.findings, *own))
    if not report.launches:
        say("note", "no launch was seen whose sizes are known")
    found = _conclude(replace(report, exit_code=status), form, output)
    return status or found


def _limit(timeout: float | None) -> float:
    """The seconds of computing that `--timeout` allows."""
    from ttools.sanitizer.sizes.api import SECONDS

    return SECONDS if timeout is None else timeout or math.inf


def _interrupted(ranges: Mapping[str, tuple[int, int]], target: str, fail_on: Severity) -> Report:
    """The report of a check that Ctrl-C ended: nothing is proved."""
    from ttools.sanitizer.sizes.report import make_report
    from ttools.sanitizer.sizes.result import Abstention, Result

    nothing = Result(ranges, abstained=[Abstention("the check was interrupted")])
    report = make_report(nothing, target=target, fail_on=fail_on)
    return replace(report, exit_code=exit_codes.INTERRUPTED)


def _spent(most: float) -> AbstractContextManager[None]:
    """Shows how long it has computed."""
    began = time.process_time()

    def state() -> State:
        spent = int(time.process_time() - began)
        if most == math.inf:
            return State(what="all sizes", done=spent, unit="s", one="s")
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
        write_text(text, output, announces=False)
    if output is not None:
        say("note", f"{summary(report)}; see {output}")
    if report.is_interrupted:
        return exit_codes.INTERRUPTED
    return exit_codes.FINDINGS if report.failing else exit_codes.OK
