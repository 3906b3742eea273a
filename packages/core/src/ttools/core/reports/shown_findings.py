"""Findings in notebooks: a table with source lines, and the details of each finding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ttools.core.findings.findings import Finding
from ttools.core.reports.notebook import Code, Part, ShowsItself, Table, Text, place_cells
from ttools.core.reports.text import affected_text, finding_text

_COLUMNS = ("severity", "check", "line", "|source", "what", "affected")


class Findings(list[Finding], ShowsItself):
    """A list of findings that notebooks display."""

    def _shown(self) -> Iterator[Part]:
        return shown_findings(self)


def shown_findings(findings: Iterable[Finding]) -> Iterator[Part]:
    """Yield a table, and each finding in folded form."""
    listed = list(findings)
    if not listed:
        yield Text("no findings")
        return
    yield Table("", _COLUMNS, [_row(finding) for finding in listed])
    for finding in listed:
        yield Code(finding_text(finding, Path.cwd()), summary=f"{finding.kernel}: {finding.kind}")


def _row(finding: Finding) -> tuple[str, ...]:
    location = finding.location
    where = place_cells(location.file, location.line) if location else (finding.kernel, "")
    return (finding.severity, finding.check, *where, finding.message, affected_text(finding))
