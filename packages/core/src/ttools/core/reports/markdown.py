"""The report as a table in GitHub-flavoured Markdown, for comments on pull requests."""

from __future__ import annotations

from ttools.core.findings.findings import Finding
from ttools.core.reports.accuracy import GpuRange, OutputAccuracy
from ttools.core.reports.markdown_syntax import escaped
from ttools.core.reports.report import Report, summary
from ttools.core.reports.text import affected_text

_TOLERANCES = "| kernel | output | rtol | atol | reason |\n|---|---|---|---|---|\n"
_RANGES = "| kernel | output | results of a GPU (estimated) |\n|---|---|---|\n"
_HEAD = "| severity | kind | place | kernel | message |\n|---|---|---|---|---|\n"


def write(report: Report) -> str:
    """Return the summary, a row per finding, and the tables of tolerances and ranges on request."""
    rows = "".join(_row(finding, report) for finding in report.findings)
    text = f"**{escaped(summary(report))}**\n" + (f"\n{_HEAD}{rows}" if rows else "")
    if report.suggests_tolerances and report.accuracy:
        text += f"\n{_TOLERANCES}{''.join(map(_tolerance_row, report.accuracy))}"
    ranges = [(output, output.gpu_range) for output in report.accuracy if output.gpu_range]
    rows = "".join(_range_row(output, gpu_range) for output, gpu_range in ranges)
    return text + (f"\n{_RANGES}{rows}" if rows else "")


def _range_row(output: OutputAccuracy, gpu_range: GpuRange) -> str:
    cells = (
        output.kernel,
        f"{output.argument} ({output.dtype})",
        f"{gpu_range.gpu}: {gpu_range.text}",
    )
    return f"| {' | '.join(map(escaped, cells))} |\n"


def _tolerance_row(output: OutputAccuracy) -> str:
    tolerances = ("none" if t is None else f"{t:g}" for t in (output.rtol, output.atol))
    cells = (output.kernel, f"{output.argument} ({output.dtype})", *tolerances, output.reason)
    return f"| {' | '.join(map(escaped, cells))} |\n"


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
