"""A profile as a notebook shows it: kernels, their lines of source, accesses, advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ttools.core.reports.shown import Part, Table, Text, place_cells
from ttools.profiler.metrics import ACCESSES, KERNELS, LINES, Metric, by_name, chosen
from ttools.profiler.report.html import finite, line_facts, shown_columns

if TYPE_CHECKING:
    from ttools.profiler.report.analysis import ProfileAnalysis

_PLACE = ("kernel", "line", "|source")
_KERNELS = by_name(KERNELS)
_LINES = chosen(LINES, "time_share", "loaded", "stored", "flops")
_ACCESSES = chosen(
    ACCESSES,
    *("grid", "kind", "bits", "sectors_per_request", "ideal_per_request", "efficiency"),
)


def parts_of(profiled: ProfileAnalysis) -> Iterator[Part]:
    """Return the parts; those of which there is nothing are left out."""
    rows = [finite(row) for row in profiled.frame.to_dict("records")]
    if not rows:
        yield Text("no kernel was launched")
        return
    yield _kernels(profiled, rows)
    lines = [_line(finite(row)) for row in profiled.lines.to_dict("records")]
    if lines:
        yield Table("Lines", (*_PLACE, *map(_heading, _LINES), "what"), lines)
    accesses = [_access(finite(row)) for row in profiled.accesses.to_dict("records")]
    if accesses:
        columns = (*_PLACE, *map(_heading, _ACCESSES))
        yield Table("Accesses as warps make them, per request", columns, accesses)
    advice = [
        (hint.kernel, *_place(hint.location), hint.evidence, hint.advice)
        for hint in profiled.advice
    ]
    if advice:
        yield Table("Advice", (*_PLACE, "what costs time", "what to try"), advice)
    if said := str(profiled.trials):
        yield Text(said)
    yield from (Text(f"{kernel}: {note}") for kernel, note in profiled.notes.items())


def _kernels(profiled: ProfileAnalysis, rows: Sequence[Mapping[str, Any]]) -> Table:
    names = shown_columns(rows)
    configs = any(row["config"] for row in rows)
    columns = ["kernel", *(["config"] if configs else [])]
    columns += [_heading(_KERNELS[name]) for name in names]
    cells = [
        [
            row["kernel"],
            *([row["config"]] if configs else []),
            *(_KERNELS[name].text(row.get(name)) for name in names),
        ]
        for row in rows
    ]
    device = f", bounds of {profiled.device.name}" if profiled.device else ""
    return Table(f"Kernels, timed on {profiled.timed_on}{device}", columns, cells)


def _heading(metric: Metric) -> str:
    """Return the heading of a column, marked as `Table` wants it for numbers."""
    return f"{'' if metric.kind == 'text' else '>'}{metric.heading}"


def _line(row: Mapping[str, Any]) -> tuple[str, ...]:
    place = row["kernel"], *place_cells(row["file"], int(row["line"]))
    return (*place, *(each.text(row[each.name] or None) for each in _LINES), line_facts(row))


def _access(row: Mapping[str, Any]) -> tuple[str, ...]:
    place = row["kernel"], *place_cells(row["file"], int(row["line"]))
    return (*place, *(each.text(row[each.name]) for each in _ACCESSES))


def _place(location: Any) -> tuple[str, str]:
    return place_cells(location.file, location.line) if location else ("", "")
