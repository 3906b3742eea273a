"""Writes a sweep as a self-contained HTML page with charts and a table.

`page/` contains the markup and the style.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ttools.core.json_document import json_text
from ttools.core.reports.csv import csv_text
from ttools.core.reports.notebook import Table, reporter_of
from ttools.core.reports.numbers import seconds
from ttools.core.reports.page_template import render_page
from ttools.core.reports.result import Formats, formats_of
from ttools.profiler.sweep.sweep import Measurement, Sweep, shown_value

_PAGE = Path(__file__).parent / "page"
_SIZE = {"WIDTH": 720, "HEIGHT": 300, "LEFT": 72, "RIGHT": 20, "BOTTOM": 40}
_TOP = 14
#: The largest number of charts on a page.
_MOST = 12


def write_page(sweep: Sweep, title: str) -> str:
    """Return an HTML document.

    Args:
        sweep: A sweep that may still be running; its measurements so far are shown.
        title: The swept function, as the user wrote it.
    """
    shown, left_out = charts_of(sweep.rows, sweep.varying)
    return render_page(
        _PAGE,
        title=title,
        timed_on=sweep.timed_on,
        baseline=sweep.baseline,
        of_pass=sweep.of_pass,
        measured=sweep.done,
        total=sweep.total,
        size=_SIZE,
        charts=shown,
        left_out=left_out,
        names=sweep.varying,
        rows=[_row(row, sweep) for row in sweep.rows],
        flops=any(row.flops for row in sweep.rows),
    )


@formats_of(Sweep)
def _formats(sweep: Sweep) -> Formats:
    return {
        "json": lambda: json_text(sweep.as_dict()),
        "csv": lambda: csv_text(sweep.frame),
        "html": lambda: write_page(sweep, " ".join(sweep.implementations)),
    }


@reporter_of(Sweep)
def _parts(sweep: Sweep) -> list[Table]:
    return [sweep_table(sweep)]


def sweep_table(sweep: Sweep) -> Table:
    """Return the measurements so far as a table for notebooks."""
    measured = f"{sweep.done:,} of {sweep.total:,} shapes"
    title = f"Times{sweep.of_pass} on {sweep.timed_on}, {measured}; baseline {sweep.baseline}"
    numbers = (">median", "95% interval", ">speed-up", ">error", ">GB/s", ">Tflop/s")
    columns = (*sweep.varying, "implementation", *numbers, "failure")
    cells = [_row(row, sweep) for row in sweep.rows]
    return Table(
        title,
        columns,
        [
            (*c["shape"], c["implementation"], *c["numbers"], c["tflops"], c["failure"])
            for c in cells
        ],
    )


def _row(row: Measurement, sweep: Sweep) -> dict[str, Any]:
    values = row.as_dict()
    time = row.time
    return {
        "shape": [shown_value(row.shape.get(name)) for name in sweep.varying],
        "implementation": row.implementation,
        "failure": row.failure,
        "numbers": [
            seconds(time.median) if time else "",
            f"{seconds(time.low)} to {seconds(time.high)}" if time else "",
            *(_text(values[name], form) for name, form in _NUMBERS),
        ],
        "tflops": _text(values["tflops"], ".3g"),
    }


_NUMBERS = (("speedup", ".2f"), ("error", ".1e"), ("gbytes", ".3g"))


def _text(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form) if value else "0"


# --- charts ---------------------------------------------------------------------------------------


def charts_of(rows: Sequence[Measurement], varying: Sequence[str]) -> tuple[list[Any], int]:
    """Return the charts, and the number of charts that were left out.

    The horizontal axis is the numeric parameter with the most values; if no parameter is numeric,
    there are no charts. There is one chart for each combination of values of the other parameters.
    """
    axis = _axis(rows, varying)
    groups: dict[str, list[Measurement]] = {}
    for row in rows:
        if row.time is not None and axis is not None and _is_number(row.shape.get(axis)):
            others = {name: row.shape.get(name) for name in varying if name != axis}
            groups.setdefault(_chart_title(others), []).append(row)
    names = list(dict.fromkeys(row.implementation for row in rows))
    charts = [_chart(title, own, str(axis), names) for title, own in groups.items()]
    return charts[:_MOST], max(0, len(charts) - _MOST)


def _axis(rows: Iterable[Measurement], varying: Iterable[str]) -> str | None:
    values = {name: {row.shape.get(name) for row in rows} for name in varying}
    numbers = {n: own for n, own in values.items() if any(_is_number(value) for value in own)}
    return max(numbers, key=lambda name: len(numbers[name]), default=None)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _chart_title(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={shown_value(value)}" for name, value in values.items())


def _chart(title: str, rows: Sequence[Measurement], axis: str, names: Sequence[str]) -> Any:
    sizes = sorted({row.shape[axis] for row in rows})
    ends = [end for row in rows if row.time for end in (row.time.low, row.time.high)]
    across = _Scale(sizes[0], sizes[-1], _SIZE["LEFT"], _SIZE["WIDTH"] - _SIZE["RIGHT"])
    up = _Scale(min(ends) / 1.2, max(ends) * 1.2, _SIZE["HEIGHT"] - _SIZE["BOTTOM"], _TOP)
    lines = []
    for number, name in enumerate(names):
        own = sorted(
            (row for row in rows if row.implementation == name), key=lambda row: row.shape[axis]
        )
        points = [
            {
                "x": across.at(row.shape[axis]),
                "y": up.at(row.time.median),
                "low": up.at(row.time.low),
                "high": up.at(row.time.high),
                "text": f"{name}, {axis}={row.shape[axis]}: {seconds(row.time.median)}",
            }
            for row in own
            if row.time is not None
        ]
        if points:
            line = " ".join(f"{point['x']},{point['y']}" for point in points)
            lines.append({"name": name, "number": number % 8, "points": points, "line": line})
    return {
        "title": title,
        "axis": axis,
        "lines": lines,
        "across": _apart([{"at": across.at(size), "text": f"{size:,}"} for size in sizes]),
        "up": [{"at": up.at(tick), "text": seconds(tick)} for tick in _decades(*up.ends)],
    }


class _Scale:
    """An axis scale, logarithmic if it begins above zero; a single value is in its middle."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.ends = low, high
        self._start, self._end = start, end
        self._log = math.log if low > 0 else float

    def at(self, value: float) -> float:
        """Return the position of a value on the page, in pixels."""
        low, high = (self._log(end) for end in self.ends)
        part = (self._log(value) - low) / (high - low) if high > low else 0.5
        return round(self._start + (self._end - self._start) * part, 1)


def _apart(ticks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the ticks whose labels do not overlap."""
    spaced: list[dict[str, Any]] = []
    for tick in ticks:
        if not spaced or tick["at"] - spaced[-1]["at"] >= 56:
            spaced.append(tick)
    return spaced


def _decades(low: float, high: float) -> list[float]:
    """Return powers of ten and, in a range of at most three decades, also 2 and 5 times these."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1.0,) if len(exponents) > 3 else (1.0, 2.0, 5.0)
    return [s * 10.0**e for e in exponents for s in steps if low <= s * 10.0**e <= high]
