"""A profile as a notebook shows it: kernels, their lines of source, accesses, advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ttools.core.reports.shown import Part, Table, Text, place_cells
from ttools.profiler.report.html import COLUMNS, finite, line_facts, shown_columns, text

if TYPE_CHECKING:
    from ttools.profiler.report.profile import Profile

#: Columns of text, which are not of numbers.
_TEXT = frozenset({"kind", "limited_by", "projected_outside", "cannot_launch"})
_PLACE = ("kernel", "line", "|source")


def shown_profile(profiled: Profile) -> Iterator[Part]:
    """The parts; those of which there is nothing are left out."""
    rows = [finite(row) for row in profiled.frame.to_dict("records")]
    if not rows:
        yield Text("no kernel was launched")
        return
    yield _kernels(profiled, rows)
    lines = [_line(finite(row)) for row in profiled.lines.to_dict("records")]
    if lines:
        yield Table("Lines", (*_PLACE, ">time", ">loaded", ">stored", ">flop", "what"), lines)
    accesses = [_access(finite(row)) for row in profiled.accesses.to_dict("records")]
    if accesses:
        columns = (*_PLACE, "grid", "access", ">bits", ">sectors", ">at best", ">efficiency")
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


def _kernels(profiled: Profile, rows: Sequence[Mapping[str, Any]]) -> Table:
    names = shown_columns(rows)
    configs = any(row["config"] for row in rows)
    columns = ["kernel", *(["config"] if configs else [])]
    columns += [f"{'' if name in _TEXT else '>'}{COLUMNS[name][0]}" for name in names]
    cells = [
        [
            row["kernel"],
            *([row["config"]] if configs else []),
            *(text(row.get(name), COLUMNS[name][1]) for name in names),
        ]
        for row in rows
    ]
    device = f", bounds of {profiled.device.name}" if profiled.device else ""
    return Table(f"Kernels, timed on {profiled.timed_on}{device}", columns, cells)


def _line(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["kernel"],
        *place_cells(row["file"], int(row["line"])),
        text(row.get("time_share") or None, "share"),
        text(row["loaded"] or None, "bytes"),
        text(row["stored"] or None, "bytes"),
        text(row["flops"] or None, "amount"),
        line_facts(row),
    )


def _access(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["kernel"],
        *place_cells(row["file"], int(row["line"])),
        row["grid"],
        row["kind"],
        str(row["bits"]),
        f"{row['sectors_per_request']:.2f}",
        f"{row['ideal_per_request']:.2f}",
        f"{row['efficiency']:.1%}",
    )


def _place(location: Any) -> tuple[str, str]:
    return place_cells(location.file, location.line) if location else ("", "")
