"""The report as a table in GitHub-flavoured Markdown, for comments on pull requests."""

from __future__ import annotations

from ttools.core.findings.findings import Finding
from ttools.core.reports.markdown_syntax import escaped
from ttools.core.reports.report import Report, summary
from ttools.core.reports.text import affected_text

_HEAD = "| severity | kind | place | kernel | message |\n|---|---|---|---|---|\n"


def write(report: Report) -> str:
    """Return the summary, and a table with a row per finding."""
    rows = "".join(_row(finding, report) for finding in report.findings)
    return f"**{escaped(summary(report))}**\n" + (f"\n{_HEAD}{rows}" if rows else "")


def _row(finding: Finding, report: Report) -> str:
    place = ""
    if finding.location is not None:
        place = f"{report.path(finding.location.file)}:{finding.location.line}"
    notes = (note for note in finding.notes if "\n" not in note)
    texts = [finding.message, *notes, affected_text(finding)]
    if finding.help:
        texts.append(f"help: {finding.help}")
    cells = (finding.severity, finding.kind, place, finding.kernel, "; ".join(filter(None, texts)))
    return f"| {' | '.join(map(escaped, cells))} |\n"
