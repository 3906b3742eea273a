"""What `ttools sanitize` does when its run has ended: the report, the baseline, the exit status."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttools.cli import exit_codes
from ttools.cli.children import child_launches_text
from ttools.cli.console import say, show_error, write_findings, write_text
from ttools.core.errors import TtoolsError
from ttools.core.findings.findings import Severity
from ttools.core.process.hard_exit import flush_streams
from ttools.core.process.interruptible import first_ctrl_c_ignored

if TYPE_CHECKING:
    from ttools.core.process.child_launches import ChildLaunches
    from ttools.core.reports.report import Report
    from ttools.sanitizer import Sanitization
    from ttools.sanitizer.gpu import GpuSanitization

#: How long a process that is to end waits for a report that another thread writes.
_PATIENCE_S = 5.0


@dataclass(kw_only=True)
class SanitizeEnding:
    """The end of one run.

    Attributes:
        target: what was run, as the user named it.
        only: the kernels that were to be checked; all if empty.
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
    _writing: Any = field(default_factory=threading.Lock, init=False)
    _concluded: int | None = field(default=None, init=False)
    _owner: int = field(default_factory=os.getpid, init=False)

    def conclude(self, status: int | None, failure: TtoolsError | None = None) -> int:
        """Writes the report and all messages, once, and returns the exit status.

        Args:
            status: the program's own; None if ttools failed.
            failure: that ended the run; raised when the report is out.
        """
        if os.getpid() != self._owner:
            return status or exit_codes.OK  # a fork of the program came this far
        with self._writing, first_ctrl_c_ignored() as ignored:
            if self._concluded is None:
                self._concluded = self._conclude(status, failure)
            if ignored:
                self._concluded = self._concluded or exit_codes.INTERRUPTED
            return self._concluded

    @contextmanager
    def at_signals(self) -> Iterator[None]:
        """Writes the report of the run so far where SIGTERM or a second Ctrl-C ends the process."""
        from ttools.core.reports import json, registry, text  # noqa: F401 - there is no time then
        from ttools.interpreter.runtime.stopping import last_words

        with last_words(self._say_last_words):
            yield

    def _say_last_words(self, number: int) -> None:
        if not self._writing.acquire(timeout=_PATIENCE_S):
            return
        try:
            if self._concluded is None:
                say("note", f"{signal.Signals(number).name}: this is the report so far")
                self._concluded = self._conclude(128 + number)
        except TtoolsError as error:
            show_error(error)
        finally:
            flush_streams()

    def _conclude(self, status: int | None, failure: TtoolsError | None = None) -> int:
        for warning in (*self.checked.warnings, *self._unchecked()):
            say("warning", warning)
        for note in self.checked.notes:
            say("note", note)
        report = self.checked.report(target=self.target, exit_code=status, fail_on=self.fail_on)
        self._write(report)
        if failure is not None:
            raise failure
        if self.new_baseline is not None:
            if report.is_interrupted or report.unfinished:
                text = f"{self.new_baseline} was not written: not everything was checked to its end"
                say("error", text)
                return status or self._judged(report) or exit_codes.FINDINGS
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
        started = [] if self.children is None else self.children.of_started
        wanted = (name for name in started if not self.only or name in self.only)
        unchecked = [name for name in wanted if name not in launched]
        if unchecked:
            yield f"{child_launches_text(unchecked)}, which was not checked there"

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
        write_text(text, self.output, announces=failed)
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
        if report.failing:
            return exit_codes.FINDINGS
        ended_early = (each.reason in ("interrupted", "running") for _, each in report.unfinished)
        return exit_codes.INTERRUPTED if any(ended_early) else exit_codes.OK


def _write_down(report: Report, baseline: Path) -> Report:
    """Writes the findings to the baseline; returns the report without them."""
    from ttools.core.findings.baseline import write_baseline
    from ttools.core.reports.report import counted

    count = write_baseline((*report.findings, *report.dropped), baseline)
    say("note", f"{baseline} now holds {counted(count, 'finding')}, which no longer count")
    return replace(report, findings=(), dropped=())
