"""The report as JSON, schema `ttools.report/1`; docs/reference/findings.md describes it.

Fields may be added under the same schema; a change of meaning requires a new schema.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from ttools.core.findings.causes import Cause
from ttools.core.findings.findings import Finding, TallyEntry
from ttools.core.location import SourceLocation, extent
from ttools.core.reports.accuracy import line_data, output_data
from ttools.core.reports.report import Report, summary
from ttools.core.spec import ArgumentSpec

SCHEMA = "ttools.report/1"

_RENAMED = {"other_configs": "configs"}


def write(report: Report) -> str:
    """Return the report as an indented JSON document."""
    return json.dumps(as_data(report), indent=2, default=str) + "\n"


def as_data(report: Report) -> dict[str, Any]:
    """Return the report as plain data."""
    sizes = {} if report.sizes is None else {"sizes": report.sizes.as_data()}
    outputs = [output_data(output) for output in report.accuracy]
    lines = [line_data(line) for line in report.line_errors]
    accuracy = {"accuracy": {"outputs": outputs, "lines": lines}} if outputs or lines else {}
    return {
        "schema": SCHEMA,
        **sizes,
        **accuracy,
        "script": {"target": report.target, "exit_code": report.exit_code},
        "outcome": report.outcome,
        "summary": summary(report),
        "launches": [entry_data(entry) for entry in report.launches],
        "findings": [finding_data(finding) for finding in report.findings],
        "suppressed": [
            {"by": entry.by, "reason": entry.reason, "finding": finding_data(entry.finding)}
            for entry in report.suppressed
        ],
    }


def finding_data(finding: Finding) -> dict[str, Any]:
    """Return a finding as plain data: the fields of `Finding`, some renamed or converted."""
    fields = {_RENAMED.get(name, name): value for name, value in vars(finding).items()}
    for name in ("sizes", "witness", "origin", "cause"):
        if not fields[name]:
            del fields[name]
    if finding.cause is not None:
        fields["cause"] = cause_data(finding.cause)
    return {
        **fields,
        "argument": None if finding.argument is None else argument_data(finding.argument),
        "location": location_data(finding.location),
        "variables": dict(finding.variables),
        "related": [
            {**vars(related), "location": location_data(related.location)}
            for related in finding.related
        ],
        "configs": finding.configs,
    }


def cause_data(cause: Cause) -> dict[str, Any]:
    """Return a cause as plain data; `id` is equal for findings with a common cause."""
    location = location_data(cause.location)
    return {"id": cause.id, **vars(cause), "location": location}


def entry_data(entry: TallyEntry) -> dict[str, Any]:
    """Return an entry of the list of launches as plain data."""
    site = entry.spec.site
    return {
        "kernel": entry.spec.kernel,
        "grid": entry.spec.grid,
        "count": entry.count,
        "seconds": entry.seconds,
        "location": site.line,
        "config": site.config,
        "choices": site.choices,
        "unfinished": [asdict(unfinished) for unfinished in entry.unfinished],
    }


def argument_data(argument: ArgumentSpec) -> dict[str, Any]:
    """Return an argument as plain data; `offset` is in elements."""
    tensor = argument.tensor
    return {
        "name": argument.name,
        "dtype": argument.dtype,
        "shape": argument.shape,
        "strides": None if tensor is None else tensor.strides,
        "offset": 0 if tensor is None else tensor.element_offset,
        "storage_bytes": None if tensor is None else tensor.storage_bytes,
    }


def location_data(location: SourceLocation | None) -> dict[str, Any] | None:
    """Return a location as plain data; columns count from 1, and `end_column` is exclusive."""
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
