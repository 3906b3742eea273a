"""The report as JSON, schema `ttools.report/1`; docs/reference/findings.md describes it.

Owns the names of the fields. Fields may be added under the same schema; a change of meaning is a
new one.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from ttools.core.findings.findings import Argument, Finding, LaunchEntry, Related
from ttools.core.findings.suppressions import Suppressed
from ttools.core.location import SourceLocation, extent
from ttools.core.reports.report import Report, summary

SCHEMA = "ttools.report/1"


def write(report: Report) -> str:
    """The report as an indented JSON document."""
    return json.dumps(as_data(report), indent=2, default=str) + "\n"


def as_data(report: Report) -> dict[str, Any]:
    """The report as plain data."""
    sizes = {} if report.sizes is None else {"sizes": report.sizes.as_data()}
    return {
        "schema": SCHEMA,
        **sizes,
        "script": {"target": report.target, "exit_code": report.exit_code},
        "summary": summary(report),
        "launches": [_launch(entry) for entry in report.launches],
        "findings": [finding_data(finding) for finding in report.findings],
        "suppressed": [_suppressed(entry) for entry in report.suppressed],
    }


def finding_data(finding: Finding) -> dict[str, Any]:
    """One finding as plain data."""
    sizes = {} if finding.sizes is None else {"sizes": dict(finding.sizes)}
    return {
        "kind": finding.kind,
        "check": finding.check,
        "severity": finding.severity,
        "message": finding.message,
        "kernel": finding.kernel,
        "argument": _argument(finding.argument),
        "location": location_data(finding.location),
        "program": _list(finding.program),
        "lane": _list(finding.lane),
        "shape": _list(finding.shape),
        "iteration": _list(finding.iteration),
        "variables": dict(finding.variables),
        "notes": _list(finding.notes),
        "count": finding.count,
        "programs": finding.programs,
        "related": [_related(related) for related in finding.related],
        "launch": finding.launch,
        "launch_callers": _list(finding.launch_callers),
        "config": dict(finding.config) if finding.config is not None else None,
        "configs": [dict(config) for config in finding.configs],
        "help": finding.help,
        **sizes,
    }


def location_data(location: SourceLocation | None) -> dict[str, Any] | None:
    """A location; `column` and `end_column`, one past the last, count characters from 1."""
    if location is None:
        return None
    columns = extent(location) or (location.column or None, None)
    return {
        "file": location.file,
        "line": location.line or None,
        "column": columns[0],
        "end_column": columns[1],
        "callers": [location_data(caller) for caller in location.callers],
    }


def _argument(argument: Argument | None) -> dict[str, Any] | None:
    return None if argument is None else asdict(argument)


def _related(related: Related) -> dict[str, Any]:
    return {
        "message": related.message,
        "location": location_data(related.location),
        "program": _list(related.program),
        "lane": _list(related.lane),
        "iteration": _list(related.iteration),
    }


def _launch(entry: LaunchEntry) -> dict[str, Any]:
    return {
        "kernel": entry.kernel,
        "grid": _list(entry.grid),
        "count": entry.count,
        "seconds": entry.seconds,
        "location": entry.location,
        "config": dict(entry.config) if entry.config is not None else None,
        "choices": entry.choices,
    }


def _suppressed(entry: Suppressed) -> dict[str, Any]:
    return {"by": entry.by, "reason": entry.reason, "finding": finding_data(entry.finding)}


def _list(values: tuple[Any, ...] | None) -> list[Any] | None:
    return None if values is None else list(values)
