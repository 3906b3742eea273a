"""What `ttools sanitize` does when its run has ended: the report, the baseline, the exit status."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ttools.cli import exit_codes
from ttools.cli.children import child_launches_text
from ttools.cli.console import say, show_error, write_findings, write_text
from ttools.core.errors import TtoolsError
from ttools.core.findings.findings import Severity

if TYPE_CHECKING:
    from ttools.core.process.child_launches import ChildLaunches
    from ttools.core.reports.report import Report
    from ttools.sanitizer import Sanitization
    from ttools.sanitizer.gpu import GpuSanitization


@dataclass(kw_only=True)
class SanitizeEnding:
    """The end of one run.

    Attributes:
        checked: the run.
        target: what was run, as the user named it.
        only: the kernels that were to be checked; all if empty.
        form: of the report.
        output: where it goes; standard output if None.
        fail_on: from which severity on findings fail the run.
        require_launches: whether a run that saw no kernel fails.
        new_baseline: where to write down what was found, if anywhere.
        children: the kernels that child processes launch, once the program runs.
    """

    checked: Sanitization | GpuSanitization
    target: str
    only: tuple[str, ...]
    form: str
    output: Path | None
    fail_on: Severity
    require_launches: bool
    new_baseline: Path | None
    children: ChildLaunches | None = None

    def conclude(self, status: int | None, failure: TtoolsError | None = None) -> int:
        """Writes the report and all messages, and returns the exit status.

        Args:
            status: the program's own; None if ttools failed.
            failure: that ended the run; raised when the report is out.
        """
        for warning in (*self.checked.warnings, *self._unchecked()):
            say("warning", warning)
        for note in self.checked.notes:
            say("note", note)
        report = self.checked.report(target=self.target, exit_code=status, fail_on=self.fail_on)
        self._write(report)
        if failure is not None:
            raise failure
        if self.new_baseline is not None:
            report = _write_down(report, self.new_baseline)
        return status or self._judged(report)

    def status_after_hard_exit(self, status: int) -> int:
        """The same where the program called `os._exit`, and nothing is left to catch an error."""
        try:
            return self.conclude(status)
        except TtoolsError as error:
            show_error(error)
            return exit_codes.of_error(error)

    def _unchecked(self) -> Iterator[str]:
        """What was not checked, although the user may think so."""
        launched = {entry.kernel for entry in self.checked.launches}
        for name in self.only:
            if name not in launched:
                yield f"no kernel `{name}` was launched (--only)"
        if self.children is not None and self.children.of_started:
            yield f"{child_launches_text(self.children.of_started)}, which was not checked there"
        if "xdist.dsession" in sys.modules:
            yield (
                "pytest-xdist ran tests in processes of its own, whose kernels were not checked; "
                "`pytest --ttools-sanitize` checks them"
            )

    def _write(self, report: Report) -> None:
        from ttools.core.reports.registry import write_report
        from ttools.core.reports.report import no_launch, summary

        failed = bool(report.exit_code) and not report.launches
        if failed and self.output is None and self.form == "text" and not report.findings:
            return  # that nothing was launched follows from how the program ended
        text = write_report(report, self.form)
        if self.output is None and self.form == "text":
            write_findings(text)
            return
        write_text(text, self.output)
        if failed:
            return
        if not report.launches:
            say("note", no_launch(report))
        elif self.output is not None:
            say("note", f"{summary(report)}; see {self.output}")

    def _judged(self, report: Report) -> int:
        """The exit status of a run whose program ended well."""
        from ttools.core.reports.report import no_launch

        if self.require_launches and not report.launches:
            say("error", f"{no_launch(report)} (--require-launches)")
            return exit_codes.FINDINGS
        return exit_codes.FINDINGS if report.failing else exit_codes.OK


def _write_down(report: Report, baseline: Path) -> Report:
    """Writes the findings to the baseline; returns the report without them."""
    from ttools.core.findings.baseline import write_baseline
    from ttools.core.reports.report import counted

    count = write_baseline((*report.findings, *report.dropped), baseline)
    say("note", f"{baseline} now holds {counted(count, 'finding')}, which no longer count")
    return replace(report, findings=(), dropped=())
