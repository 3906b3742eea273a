"""The report as one self-contained HTML page: the source with its findings, maps, and accuracy.

Markup, style and script are in `page/`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ttools.core.findings.findings import SEVERITIES, Finding, TallyEntry
from ttools.core.location import (
    SourceLocation,
    excerpt,
    extent,
    shown_line,
    source_line,
    source_lines,
)
from ttools.core.reports.accuracy import OutputAccuracy, bin_labels, listed_shares, ulps
from ttools.core.reports.conclusion import page_summary
from ttools.core.reports.highlighting import highlighted
from ttools.core.reports.page_template import render_page, script_json
from ttools.core.reports.report import (
    Report,
    by_cause,
    cause_text,
    config_text,
    counted,
    launches_summary,
    summary,
)
from ttools.core.reports.sizes_picture import picture
from ttools.core.reports.tensor_map import COLLISION, TensorMap
from ttools.core.reports.text import argument_text, detail_lines, headline, location_text

_PAGE = Path(__file__).parent / "page"
_WHOLE_FILE_LINES = 400
_CONTEXT_LINES = 40
_COLLISIONS_LISTED = 20
#: Sizes of a histogram: the width of a bin, the height of the largest bar, and the space above it.
_BAR_STEP, _BAR_HEIGHT, _BAR_TOP = 52, 80, 16


def write(report: Report) -> str:
    """Return the report as an HTML document."""
    findings = [_finding(f, index, report.root) for index, f in enumerate(report.findings)]
    numbered = {
        id(finding): shown for finding, shown in zip(report.findings, findings, strict=True)
    }
    groups = [
        (group[0].location, _group(group, [numbered[id(finding)] for finding in group]))
        for group in by_cause(report.findings)
    ]
    sources = _sources(report)
    files = _files(report, findings, groups, sources)
    return render_page(
        _PAGE,
        summary=page_summary(report, {key: shown["id"] for key, shown in numbered.items()}),
        title=summary(report),
        findings=findings,
        filters=_filters(report.findings),
        sizes=report.sizes and picture(report.sizes.kernels, report.root),
        size_verdicts=(
            [kernel.text(report.root) for kernel in report.sizes.verdicts] if report.sizes else ()
        ),
        size_details=report.sizes.details(report.root) if report.sizes else (),
        cases=report.cases,
        files=files,
        elsewhere=[group for location, group in groups if not _is_shown(location, sources)],
        maps=[_map(tensor) for tensor in report.maps],
        accuracy=[_output(output) for output in report.accuracy],
        line_errors=_line_errors(report, files),
        map_data=script_json([_map_data(tensor) for tensor in report.maps]),
        suppressed=[
            {**_finding(entry.finding, index, report.root), "reason": entry.reason}
            for index, entry in enumerate(report.suppressed)
        ],
        launches=[_launch(entry, report) for entry in report.launches],
        ran=launches_summary(report.launches),
    )


def _finding(finding: Finding, index: int, root: Path) -> dict[str, Any]:
    location = location_text(finding.location, root) if finding.location else finding.kernel
    return {
        "id": f"finding-{index + 1}",
        "kind": finding.kind,
        "severity": finding.severity,
        "kernel": finding.kernel,
        "location": location,
        "headline": headline(finding),
        "details": "\n".join(detail_lines(finding, root)),
        "excerpt": excerpt(finding.location) if finding.location else "",
    }


def _group(group: Sequence[Finding], shown: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return findings with a common cause: the first is shown in full, the others are collapsed."""
    others = counted(len(group) - 1, "further finding")
    return {
        "cause": cause_text(group) if len(group) > 1 else "",
        "first": shown[0],
        "others": shown[1:],
        "summary": f"{others} with this cause",
    }


def _filters(findings: Iterable[Finding]) -> dict[str, dict[str, int]]:
    """Return the values, with counts, of each attribute by which the page can filter findings."""
    findings = list(findings)
    severities = Counter(finding.severity for finding in findings)
    return {
        "severity": {name: severities[name] for name in SEVERITIES if severities[name]},
        "kind": dict(sorted(Counter(finding.kind for finding in findings).items())),
        "kernel": dict(sorted(Counter(finding.kernel for finding in findings).items())),
    }


# --- source -----------------------------------------------------------------------------------


def _sources(report: Report) -> dict[str, list[str]]:
    """Return the readable lines of each file with a finding."""
    locations = [finding.location for finding in report.findings if finding.location]
    read = {file: source_lines(file) for file in dict.fromkeys(p.file for p in locations)}
    return {file: lines for file, lines in read.items() if lines}


def _is_shown(location: SourceLocation | None, sources: dict[str, list[str]]) -> bool:
    return location is not None and 1 <= location.line <= len(sources.get(location.file, ()))


def _files(
    report: Report,
    findings: list[dict[str, Any]],
    groups: list[tuple[SourceLocation | None, dict[str, Any]]],
    sources: dict[str, list[str]],
) -> list[dict[str, Any]]:
    files = []
    for index, (file, lines) in enumerate(sources.items()):
        at: dict[int, list[dict[str, Any]]] = {}
        folded: dict[int, list[dict[str, Any]]] = {}
        locations: dict[int, SourceLocation] = {}
        for location, group in groups:
            if location is not None and location.file == file:
                at.setdefault(location.line, []).append(group)
        heads = {group["first"]["id"] for _, group in groups}
        for shown, finding in zip(findings, report.findings, strict=True):
            if finding.location and finding.location.file == file:
                locations.setdefault(finding.location.line, finding.location)
                if shown["id"] not in heads:
                    folded.setdefault(finding.location.line, []).append(shown)
        others = [r.location for f in report.findings for r in f.related if r.location]
        others += [f.cause.location for f in report.findings if f.cause and f.cause.location]
        near = {*locations, *(location.line for location in others if location.file == file)}
        marks = {number - 1: _marked(location) for number, location in locations.items()}
        code = highlighted([text.rstrip("\r\n") for text in lines], marks=marks)
        files.append(
            {
                "id": f"file-{index + 1}",
                "path": report.path(file),
                "lines": [
                    {
                        "number": number,
                        "gap": gap,
                        "html": code[number - 1],
                        "groups": at.get(number, []),
                        "folded": folded.get(number, []),
                    }
                    for number, gap in visible_lines(len(lines), near)
                ],
            }
        )
    return files


def visible_lines(total: int, near: set[int]) -> list[tuple[int, bool]]:
    """Return the numbers of the lines to show, each with whether lines are left out before it.

    Args:
        total: Number of lines of the file; a short file is shown as a whole.
        near: Numbers of the lines that are shown together with their surroundings.
    """
    if total <= _WHOLE_FILE_LINES:
        return [(number, False) for number in range(1, total + 1)]
    numbers = sorted(
        {
            number
            for line in near
            for number in range(line - _CONTEXT_LINES, line + _CONTEXT_LINES + 1)
            if 1 <= number <= total
        }
    )
    preceding = [0, *numbers]
    return [(number, number != last + 1) for number, last in zip(numbers, preceding, strict=False)]


def _marked(location: SourceLocation) -> tuple[int, int]:
    """Return the columns to underline, as indices."""
    first, end = extent(location) or (1, 1)
    return first - 1, end - 1


# --- accuracy ---------------------------------------------------------------------------------


def _output(output: OutputAccuracy) -> dict[str, Any]:
    """Return an output with its histogram."""
    largest = max(*output.histogram, 1)
    bars = []
    for number, (label, count) in enumerate(zip(bin_labels(), output.histogram, strict=True)):
        height = max(count / largest * _BAR_HEIGHT, 1.0 if count else 0.0)
        bars.append(
            {
                "x": number * _BAR_STEP,
                "y": _BAR_TOP + _BAR_HEIGHT - height,
                "height": height,
                "label": label,
                "count": f"{count:,}" if count else "",
            }
        )
    stored = f"is {output.stored:.9g} and should be {output.exact:.9g}"
    return {
        "title": f"{output.kernel}: {output.argument} ({output.dtype})",
        "worst": f"`{output.argument}`{output.index} has the largest error: it {stored}",
        "reason": output.reason,
        "tolerance": output.tolerance,
        "range": _range(output),
        "bars": bars,
        "bar": {"width": _BAR_STEP - 4, "bottom": _BAR_TOP + _BAR_HEIGHT},
        "size": {"width": len(bars) * _BAR_STEP, "height": _BAR_TOP + _BAR_HEIGHT + 20},
    }


def _range(output: OutputAccuracy) -> str:
    gpu_range = output.gpu_range
    return "" if gpu_range is None else f"{gpu_range.gpu} may compute {gpu_range.text}"


def _line_errors(report: Report, files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the table of source lines: errors introduced and carried, and shares."""
    shown = {
        (file["path"], line["number"]): f"#{file['id']}L{line['number']}"
        for file in files
        for line in file["lines"]
    }
    shares: dict[tuple[str, int], list[str]] = {}
    for output in report.accuracy:
        for location, share in listed_shares(output):
            text = f"{share:.0%} of `{output.argument}`"
            shares.setdefault((location.file, location.line), []).append(text)
    rows = []
    for line in report.line_errors:
        file, number = line.location.file, line.location.line
        rows.append(
            {
                "place": f"{report.path(file)}:{number}",
                "link": shown.get((report.path(file), number), ""),
                "code": source_line(file, number).strip(),
                "operations": ", ".join(line.operations),
                "dtype": line.dtype,
                "introduced": ulps(line.introduced_ulps),
                "carried": ulps(line.carried_ulps),
                "shares": ", ".join(dict.fromkeys(shares.get((file, number), ()))),
            }
        )
    return rows


# --- memory maps and launches -----------------------------------------------------------------


def _map(tensor: TensorMap) -> dict[str, Any]:
    runs = collision_runs(tensor)
    listed = [_collision(*run) for run in runs[:_COLLISIONS_LISTED]]
    if len(runs) > _COLLISIONS_LISTED:
        listed.append(f"and {len(runs) - _COLLISIONS_LISTED:,} more locations")
    per_cell = counted(tensor.elements_per_cell, "element")
    return {
        "title": f"{tensor.kernel}: {argument_text(tensor.argument)}; {per_cell} per cell",
        "collisions": listed,
    }


def collision_runs(tensor: TensorMap) -> list[tuple[int, int, tuple[int, ...]]]:
    """Return each run of elements on which the same programs collide: first, last and programs."""
    flat = [code for row in tensor.cells for code in row]
    runs: list[tuple[int, int, tuple[int, ...]]] = []
    for cell in (index for index, code in enumerate(flat) if code == COLLISION):
        first = cell * tensor.elements_per_cell
        last = min(first + tensor.elements_per_cell, tensor.elements) - 1
        programs = tensor.sharers.get(cell, ())
        if runs and runs[-1][1:] == (first - 1, programs):
            first = runs.pop()[0]
        runs.append((first, last, programs))
    return runs


def _collision(first: int, last: int, programs: tuple[int, ...]) -> str:
    where = f"element {first:,}" if first == last else f"elements {first:,} to {last:,}"
    return f"{where}: programs {', '.join(map(str, programs))} collide"


def _map_data(tensor: TensorMap) -> dict[str, Any]:
    return {
        "elements": tensor.elements,
        "per_cell": tensor.elements_per_cell,
        "cells": tensor.cells,
        "sharers": tensor.sharers,
    }


def _launch(entry: TallyEntry, report: Report) -> list[str]:
    location = shown_line(entry.spec.site.line, report.root) if entry.spec.site.line else ""
    config = config_text(entry.spec.site.config)
    grid = " x ".join(map(str, entry.spec.grid))
    count = f"{entry.count:,}"
    if entry.unfinished:
        count += f" ({entry.checked:,} checked to the end)"
    return [entry.spec.kernel, grid, count, f"{entry.seconds * 1e3:,.2f}", location, config]
