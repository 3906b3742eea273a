"""Totals over the tests of a pytest run: launches, configurations, the report and the baseline.

Tests may run in worker processes, so the data of a test is attached to its result as text.
"""

from __future__ import annotations

import base64
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttools.sanitizer.pytest_progress import TITLE

if TYPE_CHECKING:
    from ttools.core.reports.report import Report
    from ttools.sanitizer.pytest_options import PluginOptions

#: Attribute of the result of a test's teardown, and the parts of the report that it contains.
_ATTRIBUTE = "ttools_run"
_PARTS = ("findings", "dropped", "suppressed", "launches", "maps", "accuracy", "line_errors")
#: The parts that the last lines of pytest's output need.
_FEW_PARTS = ("launches", "accuracy")


def attach(result: Any, report: Report, *, whole: bool) -> None:
    """Attach the launches and outputs of a test to its result; attach all parts if `whole`."""
    parts = {name: getattr(report, name) for name in (_PARTS if whole else _FEW_PARTS)}
    vars(result)[_ATTRIBUTE] = base64.b64encode(pickle.dumps(parts)).decode()


class RunReport:
    """The launches and findings of all tests so far."""

    def __init__(self, options: PluginOptions) -> None:
        self._options = options
        self._parts: dict[str, list[Any]] = {name: [] for name in _PARTS}
        self.tests = 0

    def add(self, result: Any) -> None:
        """Add the data that is attached to a test's result, if any."""
        text = getattr(result, _ATTRIBUTE, None)
        if text is None:
            return
        # Written by `attach`, in this process or one of the run's own workers.
        parts = pickle.loads(base64.b64decode(text))
        for name, values in parts.items():
            self._parts[name] += values
        self.tests += bool(parts["launches"])

    def add_interrupted(self, report: Report) -> None:
        """Add the report of a test that Ctrl-C interrupted and that therefore has no result."""
        for name, values in self._parts.items():
            values += getattr(report, name)
        self.tests += bool(report.launches)

    def summary(self) -> str:
        """Describe how much was checked.

        The text must not suggest that a run without launches is free of defects.
        """
        from ttools.core.reports.report import configs_text, counted, unfinished_text

        if not self.tests:
            return "no Triton kernel was launched, so nothing was checked"
        entries = self._parts["launches"]
        launches = counted(sum(entry.checked for entry in entries), "launch", "launches")
        text = f"checked {launches} in {counted(self.tests, 'test')}"
        unfinished = unfinished_text(entries)
        cut_short = f"not checked to the end: {unfinished}" if unfinished else ""
        return "; ".join(filter(None, [text, configs_text(entries), cut_short]))

    def tolerances(self) -> list[str]:
        """Return lines with the suggested tolerances, if the user wants them."""
        from ttools.core.reports.accuracy import tolerance_lines, united_outputs

        if not self._options.suggests_tolerances:
            return []
        return tolerance_lines(united_outputs(self._parts["accuracy"]))

    def conclude(self) -> tuple[list[str], bool]:
        """Write the baseline and the report; return lines to show, and True if both succeeded."""
        from ttools.core.errors import UsageError

        lines: list[str] = []
        try:
            if self._options.updates_baseline:
                lines.append(self._write_baseline())
            if self._options.form is not None:
                lines += self._write_report()
        except (OSError, UsageError) as error:
            return [*lines, f"{TITLE}: {error}"], False
        return lines, True

    def _write_baseline(self) -> str:
        from ttools.core.findings.baseline import write_baseline
        from ttools.core.reports.report import counted

        assert self._options.baseline is not None
        findings = [*self._parts["findings"], *self._parts["dropped"]]
        count = write_baseline(_united(findings), self._options.baseline)
        return f"{TITLE}: {self._options.baseline} now holds {counted(count, 'finding')}"

    def _write_report(self) -> list[str]:
        from ttools.core.reports.accuracy import united_lines, united_outputs
        from ttools.core.reports.registry import write_report
        from ttools.core.reports.report import Report, summary
        from ttools.sanitizer.checks.registry import rules

        report = Report(
            findings=tuple(_united(self._parts["findings"])),
            dropped=tuple(self._parts["dropped"]),
            launches=tuple(self._parts["launches"]),
            suppressed=tuple(self._parts["suppressed"]),
            maps=tuple(self._parts["maps"]),
            target="pytest",
            fail_on=self._options.fail_on,
            rules=rules(),
            accuracy=tuple(united_outputs(self._parts["accuracy"])),
            line_errors=tuple(united_lines(self._parts["line_errors"])),
        )
        assert self._options.form is not None
        text = write_report(report, self._options.form)
        if self._options.output is None:
            return text.rstrip().splitlines()
        Path(self._options.output).write_text(text, "utf-8")
        return [f"{TITLE}: {summary(report)}; the report is in {self._options.output}"]


def _united(findings: list[Any]) -> list[Any]:
    from ttools.core.findings.findings import merge

    return merge(findings)
