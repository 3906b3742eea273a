"""The report as short JSON, schema `ttools.brief/1`: a line for each finding, without excerpts.

It is made for readers with limited space, such as language models; docs/reference/findings.md
describes it.
"""

from __future__ import annotations

import json
from typing import Any

from ttools.core.findings.edits import edit_of
from ttools.core.findings.findings import Finding
from ttools.core.location import location_of_line
from ttools.core.reports.report import Report, by_cause, summary
from ttools.core.reports.text import location_text

SCHEMA = "ttools.brief/1"


def write(report: Report) -> str:
    """Return a JSON document with a line for each cause."""
    head: dict[str, Any] = {"schema": SCHEMA, "target": report.target, "summary": summary(report)}
    if report.exit_code is not None:
        head["exit_code"] = report.exit_code
    rows = [json.dumps(_row(group, report), default=str) for group in by_cause(report.findings)]
    lines = ",\n".join(rows)
    listed = f"[\n{lines}\n]" if rows else "[]"
    return f'{json.dumps(head)[:-1]}, "findings": {listed}}}\n'


def _row(group: tuple[Finding, ...], report: Report) -> dict[str, Any]:
    """Return the first of the findings with a common cause, and the number of the other ones."""
    first = group[0]
    location = first.location or location_of_line(first.launch)
    edit = edit_of(first)
    row = {
        "severity": first.severity,
        "kind": first.kind,
        "place": location_text(location, report.root) if location is not None else "",
        "kernel": first.kernel,
        "message": first.message,
        "notes": [note for note in first.notes if "\n" not in note],
        "help": first.help,
        "edit": edit and f"insert `{edit.text}` at {edit.line}:{edit.column}",
        "same_cause": len(group) - 1,
    }
    return {name: value for name, value in row.items() if value}
