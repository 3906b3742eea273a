"""Findings and counts as an editor shows them: diagnostics and hovers.

Owns their words and ranges. Must not know where reports come from.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lsprotocol import types
from pygls.workspace import PositionCodec

from ttools.cli.lsp.reports import LineCounts, Reports, same_file
from ttools.core.findings.findings import Finding
from ttools.core.location import SourceLocation, extent, location_of_line, source_lines
from ttools.core.reports.text import detail_lines, headline, witness_text

SOURCE = "ttools"
_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}
_STALE = "the file was changed after this run"


def diagnostics(reports: Reports, codec: PositionCodec) -> dict[str, list[types.Diagnostic]]:
    """What to show in each file, by its path."""
    found: dict[str, list[types.Diagnostic]] = {}
    for location, finding, stale in reports.findings():
        found.setdefault(location.file, []).append(_diagnostic(location, finding, stale, codec))
    return found


def _diagnostic(
    location: SourceLocation, finding: Finding, stale: bool, codec: PositionCodec
) -> types.Diagnostic:
    lines = [finding.message, witness_text(finding), *finding.notes]
    lines += [f"help: {finding.help}"] if finding.help else []
    lines += [f"({_STALE})"] if stale else []
    return types.Diagnostic(
        range=range_of(location, codec),
        message="\n".join(filter(None, lines)),
        severity=_SEVERITIES[finding.severity],
        code=finding.kind,
        source=f"{SOURCE} {finding.check}",
        related_information=list(_related(location, finding, codec)) or None,
    )


def _related(
    location: SourceLocation, finding: Finding, codec: PositionCodec
) -> Iterable[types.DiagnosticRelatedInformation]:
    related = [(each.message, each.location) for each in finding.related if each.location]
    related += [("called from here", caller) for caller in location.callers]
    if (launch := location_of_line(finding.launch)) is not None:
        related.append(("launched from here", launch))
    for message, location in related:
        if location is not None and Path(location.file).is_absolute():
            where = types.Location(
                uri=Path(location.file).as_uri(), range=range_of(location, codec)
            )
            yield types.DiagnosticRelatedInformation(location=where, message=message)


def range_of(location: SourceLocation, codec: PositionCodec) -> types.Range:
    """The range of a location in the editor's units; the whole line where no column is known."""
    lines = source_lines(location.file)
    number = max(0, min(location.line, len(lines)) - 1)
    text = lines[number].rstrip() if lines else ""
    columns = extent(location) or (len(text) - len(text.lstrip()) + 1, len(text) + 1)
    first, end = (types.Position(number, column - 1) for column in columns)
    return codec.range_to_client_units(lines, types.Range(first, end))


def hover(reports: Reports, file: str, line: int, root: Path) -> str:
    """What is known of a line, in Markdown; empty for nothing.

    Args:
        line: counted from 1.
        root: the folder that paths are shown relative to.
    """
    blocks = [
        _witness(finding, stale, root)
        for location, finding, stale in reports.findings()
        if location.line == line and same_file(location.file, file)
    ]
    rows = list(reports.lines_at(file, line))
    if rows:
        blocks.append("\n".join(counts_text(row, stale) for row, stale in rows))
    return "\n\n---\n\n".join(blocks)


def _witness(finding: Finding, stale: bool, root: Path) -> str:
    details = "\n".join(line.removeprefix("  ") for line in detail_lines(finding, root))
    note = f"\n\n*{_STALE}*" if stale else ""
    fence = "````" if "```" in details else "```"
    return f"**{headline(finding)}**\n\n{fence}text\n{details}\n{fence}{note}"


def counts_text(row: LineCounts, stale: bool) -> str:
    """The counts of a line as an item of a list.

    `- `add_kernel`: 194 executions; 590,592 bytes loaded; 0.9% of lanes masked off`.
    """
    parts = [f"{row.executions:,} executions"] if row.executions else []
    for amount, what in (
        (row.loaded, "bytes loaded"),
        (row.stored, "bytes stored"),
        (row.atomic, "bytes by atomics"),
        (row.flops, "flop"),
    ):
        parts += [f"{amount:,.0f} {what}"] if amount else []
    parts += [row.operations] if row.operations else []
    parts += [f"{row.masked_share:.1%} of lanes masked off"] if row.masked_share else []
    parts += [f"{row.time_share:.1%} of the time"] if row.time_share else []
    note = f" ({_STALE})" if stale else ""
    return f"- `{row.kernel}`: {'; '.join(parts) or 'nothing counted'}{note}"
