"""Proofs for all sizes about the launches of a function or a script, and their reports."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
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
from ttools.core.findings.findings import Severity
from ttools.core.process.script import Target

if TYPE_CHECKING:
    from ttools.core.reports.report import Report


@dataclass(frozen=True)
class Proving:
    """Options of a proof of a function or a script.

    Attributes:
        assume: Assumptions about the contents of tensors, such as `index=0:n-1,sorted`.
        form: Format of the report, such as `text` or `json`.
        output: File for the report; standard output if None.
        fail_on: Lowest severity of findings that make the command fail.
        timeout: Time limit of the proof in seconds; None for the default, 0 for no limit.
        require_proof: If True, an undecided verdict has a separate exit status.
        memory: Bytes that the tensors of a script's launch may take; None for the default.
        verbose: If True, the text shows all findings, assumptions and unproved conditions.
    """

    assume: Sequence[str]
    form: str
    output: Path | None
    fail_on: Severity
    timeout: float | None
    require_proof: bool = False
    memory: int | None = None
    verbose: bool = False

    def prove_function(self, target: str, sizes: Sequence[str]) -> int:
        """Prove the launches of a function, and write the report.

        Args:
            target: The function as `FILE.py:FUNCTION`.
            sizes: Ranges of the function's sizes, such as `n=1:4096`.

        Returns:
            The exit status.

        Raises:
            UsageError: The target is not a function, or a range is invalid.
        """
        take_over_from_upstream("ttools proves")
        from ttools.prove.api import check_ranges, load_function, read_sizes
        from ttools.prove.contracts import read_assumed

        ranges, assumed = read_sizes(sizes), read_assumed(self.assume)
        run = load_function(target, ranges)
        seconds = _limit(self.timeout)
        try:
            with _spent(seconds):
                report = check_ranges(
                    *(run, ranges),
                    target=target,
                    fail_on=self.fail_on,
                    seconds=seconds,
                    assume=assumed,
                ).report
        except KeyboardInterrupt:
            report = _interrupted(ranges, target, self.fail_on)
        return self._conclude(report)

    def prove_script(
        self, work: Work, sizes: Sequence[str], device_map: str | None, option: str
    ) -> int:
        """Run a script, prove its launches, and write the report.

        Args:
            work: The script, module or code to run.
            sizes: Ranges of sizes, by the names of the sizes in the report.
            device_map: Treatment of the CUDA devices that the script names.
            option: The command-line option that requests a script, for messages.

        Returns:
            The exit status of the script if it is not 0, else that of the report.

        Raises:
            UsageError: The work is not a script, or a range is invalid.
        """
        require_source(work, option)
        take_over_from_upstream("ttools proves")
        from ttools.prove.api import read_sizes
        from ttools.prove.contracts import read_assumed
        from ttools.prove.trace.check import check_launches
        from ttools.prove.trace.launches import trace_launches

        ranges, assumed = read_sizes(sizes), read_assumed(self.assume)
        failures: list[BaseException] = []
        with surviving(device_map) as checked:
            advice = ADVICE if checked is None else None
            with trace_launches(assumed) as traced:
                status = run_work(
                    work, device_map, quiet=True, advice=advice, on_error=failures.append
                )
            if failures and traced.is_followed and isinstance(work, Target) and work.name != "-":
                again = "it runs once more, with plain integers"
                say("note", f"the script failed while its integers were traced; {again}")
                kind = type(failures.pop()).__name__
                with trace_launches(assumed, follow=False) as traced:
                    status = run_work(
                        work, device_map, quiet=True, advice=advice, on_error=failures.append
                    )
                traced.remarks.append(
                    f"integers were not traced, because the script then fails with {kind}"
                )
        ending = _ending(status, failures)
        if ending:
            traced.left_out.append(f"launches that the script had not made when it {ending}")
        seconds = _limit(self.timeout)
        try:
            with _spent(math.inf):  # the limit applies to each launch
                report = check_launches(
                    *(traced, ranges),
                    target=str(work),
                    fail_on=self.fail_on,
                    seconds=seconds,
                    assume=assumed,
                    memory=self.memory,
                ).report
        except KeyboardInterrupt:
            report = _interrupted(ranges, str(work), self.fail_on)
            status = exit_codes.INTERRUPTED
        if checked is not None:
            # Accesses that are not proved are checked at the script's own sizes and may have
            # findings.
            lines = {finding.location for finding in report.findings}
            own = [f for f in checked.findings if f.location not in lines]
            report = replace(report, findings=(*report.findings, *own))
        report = replace(report, exit_code=status)
        if report.failed_before_launches:
            say("error", f"nothing was proved: the script {ending}")
            if self.output is None and self.form == "text" and not report.findings:
                return status
        own_status = self._conclude(report)
        return status or own_status

    def _conclude(self, report: Report) -> int:
        """Write the report, and return the exit status."""
        from ttools.core.reports.registry import write_report
        from ttools.core.reports.report import summary

        text = write_report(report, self.form, self.verbose)
        if self.output is None and self.form == "text":
            write_findings(text)
        else:
            write_text(text, self.output, announces=False)
        if self.output is not None:
            say("note", f"{summary(report)}; the report is in {self.output}")
        if report.is_interrupted:
            return exit_codes.INTERRUPTED
        if report.failing:
            return exit_codes.FINDINGS
        is_proved = report.sizes is not None and report.sizes.verdict == "proved"
        return exit_codes.UNKNOWN if self.require_proof and not is_proved else exit_codes.OK


def _ending(status: int, failures: Sequence[BaseException]) -> str:
    """Say how a script ended, as in "failed with ValueError: n is too large"; empty for success."""
    from ttools.core.compilation.compile_errors import message_in_one_line

    if status == exit_codes.INTERRUPTED:
        return "was interrupted"
    if failures:
        kind, message = type(failures[-1]).__name__, message_in_one_line(failures[-1])
        return f"failed with {kind}: {message}" if message else f"failed with {kind}"
    return f"exited with status {status}" if status else ""


def _limit(timeout: float | None) -> float:
    """Return the computing time in seconds that `--timeout` allows."""
    from ttools.prove.api import SECONDS

    return SECONDS if timeout is None else timeout or math.inf


def _interrupted(ranges: Mapping[str, tuple[int, int]], target: str, fail_on: Severity) -> Report:
    """Return the report of a proof that Ctrl-C ended, in which nothing is proved."""
    from ttools.core.reports.sizes import Unproved
    from ttools.prove.report import make_report
    from ttools.prove.result import Result

    nothing = Result(ranges, abstained=[Unproved("the check was interrupted")])
    report = make_report(nothing, target=target, fail_on=fail_on)
    return replace(report, exit_code=exit_codes.INTERRUPTED)


def _spent(most: float) -> AbstractContextManager[None]:
    """Show the computing time as progress."""
    began = time.process_time()

    def state() -> State:
        spent = int(time.process_time() - began)
        if most == math.inf:
            computed = f"{spent:,} s of computing"
            return State(what="all sizes", done=None, unit="s", facts=(computed,))
        return State(what="all sizes", done=spent, total=int(most), unit="s at most")

    return progress(state, shared=False)
