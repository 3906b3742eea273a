"""Writes a profile as a self-contained HTML page: kernels, sources, roofline, call tree, timeline.

`page/` contains the markup, the style and the script.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ttools.core.location import shown_path, source_lines
from ttools.core.reports.highlighting import highlighted
from ttools.core.reports.page_template import render_page, script_json
from ttools.core.reports.report import config_text
from ttools.profiler.counting.costs import OTHER_UNITS
from ttools.profiler.gpu_time.projection import ASSUMPTIONS as PROJECTION
from ttools.profiler.gpu_time.roofline import assumptions_of
from ttools.profiler.metrics import (
    ACCESSES,
    FIRST_COLUMNS,
    KERNELS,
    Metric,
    by_name,
    chosen,
    finite,
    line_facts,
    shown_columns,
)
from ttools.profiler.report.advice import Advice, grouped_advice, lines_text
from ttools.profiler.report.analysis import ProfileAnalysis
from ttools.profiler.report.summary import page_summary
from ttools.profiler.run.session import Sample

_PAGE = Path(__file__).parent / "page"
#: The largest number of launches in the timeline, which shows the longest ones; more would make a
#: page slow.
_MOST_EVENTS = 20_000
_MOST_LINES = 400
_MOST_HOT = 8


def write_page(profiled: ProfileAnalysis, *, target: str = "") -> str:
    """Return an HTML document.

    Args:
        profiled: A run that has ended.
        target: The command line of the run.
    """
    records = profiled.frame.to_dict("records")
    rows = [finite(row) for row in records]
    names = shown_columns(rows)
    events = _events(profiled.samples)
    advice = grouped_advice(profiled.advice)
    return render_page(
        _PAGE,
        gpu=profiled.device.name if profiled.device else "",
        summary=page_summary(profiled, rows, advice, target),
        target=target,
        timed_on=profiled.timed_on,
        device=profiled.device.name if profiled.device else "",
        assumptions=assumptions_of(profiled.device, records) if profiled.device else "",
        projection=PROJECTION if "projected_s" in names else "",
        configs=any(row["config"] for row in rows),
        columns=[_METRICS[name] for name in names],
        first=FIRST_COLUMNS,
        further=sum(name not in FIRST_COLUMNS for name in names),
        rows=[_shown(row, names) for row in rows],
        hottest=_hottest(profiled),
        timed=bool(profiled.lines["time_s"].gt(0).any()),
        sources=_sources(profiled),
        left_out=sum(s.launches for s in profiled.samples) - len(events),
        advice=[_advice(one) for one in advice],
        access_columns=_ACCESSES,
        accesses=[_access(finite(row)) for row in profiled.accesses.to_dict("records")],
        notes=profiled.notes | ({"not shown": profiled.unseen} if profiled.unseen else {}),
        data=script_json(
            {
                "roofline": _roofline(profiled, rows),
                "tree": finite(profiled.tree.as_dict()),
                "events": events,
            }
        ),
    )


# --- kernels --------------------------------------------------------------------------------------

_METRICS = by_name(KERNELS)


def _shown(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    location = f"{shown_path(row['file'])}:{int(row['line'])}" if row.get("file") else ""
    return {
        "kernel": row["kernel"],
        "config": row["config"],
        "location": location,
        "cells": [
            (metric, row.get(metric.name), metric.text(row.get(metric.name)), _meaning(metric))
            for metric in map(_METRICS.__getitem__, names)
        ],
    }


def _meaning(metric: Metric) -> str:
    return f"{metric.heading}: {metric.description}"


# --- sources --------------------------------------------------------------------------------------


def _sources(profiled: ProfileAnalysis) -> list[dict[str, Any]]:
    """Return each kernel's source with the work of its lines, except for unreadable files."""
    lines = [finite(row) for row in profiled.lines.to_dict("records")]
    entries: dict[tuple[str, str], dict[str, Any]] = {}
    starts = {s.kernel: s.source for s in profiled.samples if s.source is not None}
    for kernel, start in starts.items():
        entries[kernel, start[0]] = {"first": start[1], "at": {}}
    for row in lines:
        key = (row["kernel"], row["file"])
        entry = entries.setdefault(key, {"first": row["line"], "at": {}})
        entry["at"][row["line"]] = row
    return [
        {
            "kernel": kernel,
            "file": shown_path(file),
            "lines": shown,
            "timed": _is_timed(entry["at"]),
        }
        for (kernel, file), entry in entries.items()
        if (shown := _lines(file, entry))
    ]


def _lines(file: str, entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    every = source_lines(file)
    rows_by_line: dict[int, Any] = entry["at"]
    first = min([entry["first"], *rows_by_line])
    if not 1 <= first <= len(every):
        return []
    try:
        own = len(inspect.getblock(list(every[first - 1 :])))
    except (SyntaxError, IndentationError):
        own = 1
    last = min(len(every), max([first + own - 1, *rows_by_line]), first + _MOST_LINES)
    weight = _time_weight if _is_timed(rows_by_line) else _weight
    most = max([weight(row) for row in rows_by_line.values()], default=0)
    code = highlighted([text.rstrip("\r\n") for text in every[first - 1 : last]])
    shown = []
    for number in range(first, last + 1):
        row = rows_by_line.get(number)
        shown.append(
            {
                "number": number,
                "html": code[number - first],
                "heat": round(weight(row) / most, 3) if row and most else 0,
                "facts": line_facts(row) if row else "",
            }
        )
    return shown


def _is_timed(lines: Mapping[int, Any]) -> bool:
    return any(row["time_share"] for row in lines.values())


def _weight(row: Mapping[str, Any]) -> float:
    """Return a weight by which lines without a time are coloured, from bytes and operations."""
    return float(max(row["loaded"] + row["stored"] + row["atomic"], row["flops"] / 10))


def _time_weight(row: Mapping[str, Any]) -> float:
    return float(row["time_share"] or 0)


def _hottest(profiled: ProfileAnalysis) -> list[dict[str, Any]]:
    """Return the lines that take the most time, or that do the most work if no times are known."""
    rows = [finite(row) for row in profiled.lines.to_dict("records")]
    timed = any(row["time_s"] for row in rows)

    def weight(row: Mapping[str, Any]) -> float:
        return float(row["time_s"] or 0) if timed else _weight(row)

    hottest = []
    for row in sorted(rows, key=weight, reverse=True)[:_MOST_HOT]:
        every = source_lines(row["file"])
        if weight(row) and 1 <= row["line"] <= len(every):
            where = f"{shown_path(row['file'])}:{row['line']}"
            (code,) = highlighted([every[row["line"] - 1].strip()])
            own = {"html": code, "facts": line_facts(row)}
            hottest.append({"kernel": row["kernel"], "location": where, **own})
    return hottest


def _advice(advice: Advice) -> dict[str, Any]:
    return {
        "kind": advice.kind,
        "kernel": f"{advice.kernel} [{advice.config}]" if advice.config else advice.kernel,
        "text": advice.text,
        "evidence": [(lines_text(lines), sentence) for sentence, lines in advice.evidence.items()],
    }


#: Columns of the table of accesses, after kernel and source line.
_ACCESSES = chosen(
    ACCESSES,
    *("grid", "specialisation", "kind", "bits", "sectors_per_request", "ideal_per_request"),
    *("efficiency", "shared_by", "again"),
)


def _access(row: Mapping[str, Any]) -> list[str]:
    place = f"{shown_path(row['file'])}:{row['line']}"
    return [row["kernel"], place, *(metric.text(row[metric.name]) for metric in _ACCESSES)]


# --- charts ---------------------------------------------------------------------------------------


def _roofline(
    profiled: ProfileAnalysis, rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Return the device's roofs, and a point for each kernel."""
    device = profiled.device
    if device is None:
        return None
    points = [point for row in rows if (point := _point(row, profiled.timed_on == "the GPU"))]
    used = {
        unit
        for sample in profiled.samples
        if sample.counts
        for unit in sample.counts.total.operations
        if unit not in OTHER_UNITS and device.peak(unit)
    }
    roofs = {unit: device.peak(unit) for unit in sorted(used)} or {"fp32": device.peaks["fp32"]}
    return {
        "device": device.name,
        "bandwidth": device.bandwidth,
        "roofs": roofs,
        "points": points,
    }


def _point(row: Mapping[str, Any], on_device: bool) -> dict[str, Any] | None:
    """Return a kernel's intensity and its measured rate, or else its projected or bounding rate.

    The rate has an interval if it is projected.
    """
    flops, intensity = row.get("flops"), row.get("intensity")
    for kind, names in (
        ("measured", ("mean_s",) * 3 if on_device else ()),
        ("projected", ("projected_s", "projected_high_s", "projected_low_s")),
        ("bound", ("bound_s",) * 3),
    ):
        times = [row.get(name) for name in names]
        if flops and intensity and times and all(times):
            rate, low, high = (flops / seconds for seconds in times)
            name = f"{row['kernel']} [{row['config']}]" if row["config"] else row["kernel"]
            return {"name": name, "kind": kind, "x": intensity, "y": rate, "low": low, "high": high}
    return None


def _events(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    timed = [sample for sample in samples if sample.launches == 1]
    if len(timed) > _MOST_EVENTS:
        timed = sorted(timed, key=lambda sample: -sample.seconds)[:_MOST_EVENTS]
    return [
        {
            "name": sample.kernel,
            "lane": sample.lane or "kernels",
            "begin": sample.begin,
            "seconds": sample.seconds,
            "about": " ".join(
                [
                    f"grid {' x '.join(map(str, sample.grid))}" if sample.grid else "",
                    config_text(sample.config),
                    " > ".join(sample.stack),
                ]
            ).strip(),
        }
        for sample in timed
    ]
