"""`ttools sanitize --sizes`: all sizes of a range at once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ttools.cli import exit_codes
from ttools.cli.console import say, write_findings, write_text
from ttools.cli.progress import State, progress
from ttools.cli.work import take_over_from_upstream
from ttools.core.errors import UsageError
from ttools.core.findings.findings import Severity


def sanitize_sizes(
    sizes: Sequence[str],
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
        words: what the command line names.
        given: values of the options that cannot be used with it.
        form: of the report.
        output: where it goes; standard output if None.
        fail_on: from which severity on findings fail the run.

    Returns:
        The exit status.

    Raises:
        UsageError: the words name no function, or a range is none.
    """
    for name, value in given.items():
        if value:
            raise UsageError(f"{name} cannot be used with --sizes")
    if len(words) != 1:
        raise UsageError("--sizes needs one FILE.py:FUNCTION")
    take_over_from_upstream("ttools sanitizes")
    from ttools.core.reports.registry import write_report
    from ttools.core.reports.report import summary
    from ttools.sanitizer.sizes.api import SECONDS, check_ranges, load_function, read_sizes

    ranges = read_sizes(sizes)
    run = load_function(words[0], ranges)
    began = time.monotonic()

    def state() -> State:
        spent = int(time.monotonic() - began)
        return State(what="all sizes", done=spent, total=int(SECONDS), unit="s at most")

    with progress(state, shared=False):
        report = check_ranges(run, ranges, target=words[0], fail_on=fail_on).report
    text = write_report(report, form)
    if output is None and form == "text":
        write_findings(text)
    else:
        write_text(text, output)
    if output is not None:
        say("note", f"{summary(report)}; see {output}")
    return exit_codes.FINDINGS if report.failing else exit_codes.OK
