"""The report as SARIF 2.1.0, which code scanning and editors read.

SARIF rules represent kinds of findings, related locations represent related accesses, stacks
represent the calls of inlined functions, and suppressions represent suppressions. Columns count
Unicode characters.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ttools.core.environment import installed_version
from ttools.core.findings.edits import Edit, edit_of
from ttools.core.findings.findings import Finding, Related
from ttools.core.findings.suppressions import KINDS, Suppressed
from ttools.core.location import SourceLocation, extent, location_of_line, source_line
from ttools.core.reports.json import finding_data
from ttools.core.reports.report import Report, Rule
from ttools.core.reports.text import finding_text

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT_ID = "SRCROOT"
#: The root of ttools' own sources, to which the paths of its documentation are relative.
_DOCUMENTATION_ID = "TTOOLS"
_DOCUMENTATION = "Root folder of the sources of ttools, which contain its documentation."
_SUPPRESSION_KINDS = {
    "inline": "inSource",
    "marker": "inSource",
    "file": "external",
    "baseline": "external",
}


def write(report: Report) -> str:
    """Return the report as a SARIF log with one run."""
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(report)]}
    return json.dumps(log, indent=2, default=str) + "\n"


def _run(report: Report) -> dict[str, Any]:
    findings = [*report.findings, *(entry.finding for entry in report.suppressed)]
    rules_by_kind = {**report.rules, **{kind: Rule(meaning) for kind, meaning in KINDS.items()}}
    rules = list(dict.fromkeys(finding.kind for finding in findings))
    results = [_result(finding, rules, report.root) for finding in report.findings]
    for entry in report.suppressed:
        results.append(_result(entry.finding, rules, report.root) | _suppressions(entry))
    return {
        "tool": {
            "driver": {
                "name": "ttools",
                "version": installed_version("ttools-core") or "0",
                "rules": [_rule(kind, findings, rules_by_kind) for kind in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {
            _ROOT_ID: {"uri": report.root.absolute().as_uri() + "/"},
            _DOCUMENTATION_ID: {"description": {"text": _DOCUMENTATION}},
        },
        "invocations": [_invocation(report)],
        "results": results,
    }


def _rule(kind: str, findings: list[Finding], rules_by_kind: Mapping[str, Rule]) -> dict[str, Any]:
    """Return the description of a kind of findings as a SARIF rule.

    A `helpUri` must be absolute, but the documentation has no public address. The rule therefore
    names the page by its path in the sources of ttools: in the text, and as a location relative to
    a folder whose address the log leaves open.
    """
    first = next(finding for finding in findings if finding.kind == kind)
    rule = rules_by_kind.get(kind) or Rule(first.message)
    sentence = {"text": rule.meaning}
    page = f"docs/{rule.page}"
    parts = [
        rule.meaning,
        f"To correct it: {rule.help}." if rule.help else "",
        f"It is found by the check `{first.check}`.",
        f"To suppress a finding, write `# ttools: ignore[{kind}] reason` at its line."
        if rule.can_be_suppressed
        else "",
        f"See {page} in the sources of ttools.",
    ]
    # GitHub's code scanning requires all three descriptions.
    return {
        "id": kind,
        "shortDescription": sentence,
        "fullDescription": sentence,
        "help": {"text": " ".join(filter(None, parts))},
        "properties": {
            "tags": [first.check],
            "documentation": {"uri": page, "uriBaseId": _DOCUMENTATION_ID},
        },
    }


def _invocation(report: Report) -> dict[str, Any]:
    successful = report.exit_code in (None, 0) and not report.unfinished
    invocation: dict[str, Any] = {"executionSuccessful": successful}
    if report.unfinished:
        invocation["toolExecutionNotifications"] = [
            {
                "level": "error",
                "message": {
                    "text": f"not checked to the end: `{entry.spec.kernel}` ({reason.text})"
                },
                "locations": [
                    _location(
                        location_of_line(entry.spec.site.line), report.root, entry.spec.kernel
                    )
                ],
                "properties": asdict(reason),
            }
            for entry, reason in report.unfinished
        ]
    if report.exit_code is not None:
        invocation["exitCode"] = report.exit_code
    if report.target:
        invocation["commandLine"] = report.target
    return invocation


def _result(finding: Finding, rules: list[str], root: Path) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.kind,
        "ruleIndex": rules.index(finding.kind),
        "level": finding.severity,
        "message": {"text": _message(finding)},
        "occurrenceCount": max(1, finding.count),
        "locations": [
            _location(
                finding.location or location_of_line(finding.launch), root, kernel=finding.kernel
            )
        ],
        "properties": {"text": finding_text(finding, root), **_witness(finding)},
    }
    if related := [_related(other, index, root) for index, other in enumerate(finding.related)]:
        result["relatedLocations"] = related
    if (edit := edit_of(finding)) is not None:
        result["fixes"] = [_fix(edit, root)]
    if finding.location is not None and finding.location.callers:
        result["stacks"] = [_stack(finding.location, finding.kernel, root)]
    return result


def _fix(edit: Edit, root: Path) -> dict[str, Any]:
    """Return an edit; a region without characters is an insertion."""
    at = {
        "startLine": edit.line,
        "startColumn": edit.column,
        "endLine": edit.line,
        "endColumn": edit.column,
    }
    replacement = {"deletedRegion": at, "insertedContent": {"text": edit.text}}
    change = {"artifactLocation": _artifact(edit.file, root), "replacements": [replacement]}
    return {"description": {"text": edit.title}, "artifactChanges": [change]}


def _message(finding: Finding) -> str:
    kernel = f" (kernel `{finding.kernel}`)" if finding.kernel else ""
    # Viewers such as GitHub's code scanning show only this text.
    notes = (note for note in finding.notes if "\n" not in note)
    text = "; ".join([f"{finding.message}{kernel}", *notes])
    return f"{text}. Help: {finding.help}" if finding.help else text


def _witness(finding: Finding) -> dict[str, Any]:
    """Return the data of a finding for which SARIF has no field."""
    data = finding_data(finding)
    witness = ("program", "lane", "iteration", "variables", "notes", "argument", "launch")
    names = (*witness, "config", "configs", "cause")
    return {name: data[name] for name in names if data.get(name) not in (None, (), {})}


def _location(
    location: SourceLocation | None, root: Path, kernel: str | None = None
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if location is not None:
        physical: dict[str, Any] = {"artifactLocation": _artifact(location.file, root)}
        if location.line > 0:
            physical["region"] = _region(location)
        result["physicalLocation"] = physical
    if kernel is not None:
        result["logicalLocations"] = [{"name": kernel, "kind": "function"}]
    return result


def _region(location: SourceLocation) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": location.line}
    if columns := extent(location):
        region["startColumn"], region["endColumn"] = columns
    if text := source_line(location.file, location.line):
        region["snippet"] = {"text": text}
    return region


def _artifact(file: str, root: Path) -> dict[str, str]:
    path = Path(file)
    if not path.is_absolute():
        return {"uri": quote(file)}
    if path.is_relative_to(root):
        return {"uri": quote(path.relative_to(root).as_posix()), "uriBaseId": _ROOT_ID}
    return {"uri": path.as_uri()}


def _related(related: Related, index: int, root: Path) -> dict[str, Any]:
    location = _location(related.location, root)
    return {"id": index, "message": {"text": related.message}, **location}


def _stack(location: SourceLocation, kernel: str, root: Path) -> dict[str, Any]:
    """Return the inlined calls, innermost first; Triton does not record the functions' names."""
    chain = [location, *location.callers]
    frames = [{"location": _location(caller, root)} for caller in chain]
    frames[-1]["location"]["logicalLocations"] = [{"name": kernel, "kind": "function"}]
    return {"frames": frames}


def _suppressions(entry: Suppressed) -> dict[str, Any]:
    return {
        "suppressions": [
            {
                "kind": _SUPPRESSION_KINDS[entry.by],
                "status": "accepted",
                "justification": entry.reason,
            }
        ]
    }
