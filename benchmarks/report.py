"""Tables of the measurements: rich tables for people, Markdown, and JSON for programs.

A table is a title, column heads and rows of text. Both renderings have the same content.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compile_time import PHASES
from figures import Figure
from rich import box
from rich.console import Console
from rich.table import Table
from sides import CHECKED, NOISY, TITLES, Row, Times

#: Sides in the tables of run times and of the checks, in this order.
_COMPARED = ("ours", "torch", "upstream")
_UNDER_CHECKS = ("ours", "memcheck", "checks", "upstream", "viz")
_RATIOS = {"memcheck": "memcheck / unchecked", "checks": "checks / unchecked"}


@dataclass(frozen=True)
class Sheet:
    """One table."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def show(self, console: Console) -> None:
        table = Table(title=self.title, title_justify="left", box=box.SIMPLE_HEAD)
        for number, head in enumerate(self.heads):
            table.add_column(head, justify="left" if number == 0 else "right", no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        console.print(table)
        for note in self.notes:
            console.print(f"  {note}", highlight=False)

    def markdown(self) -> str:
        rule = ["---", *["---:"] * (len(self.heads) - 1)]
        lines = [self.heads, rule, *self.rows]
        text = [f"### {self.title}", "", *(f"| {' | '.join(line)} |" for line in lines)]
        if self.notes:
            text += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(text) + "\n"


def milliseconds(seconds: float) -> str:
    ms = seconds * 1e3
    if ms >= 100:
        return f"{ms:,.0f}"
    return f"{ms:.1f}" if ms >= 10 else f"{ms:.3f}"


def speed_sheet(rows: Sequence[Row], threads: int) -> Sheet:
    """Return the table of all workloads for one number of threads."""
    mine = [row for row in rows if row.threads == threads]
    sides = [side for side in _COMPARED if any(side in row.times for row in mine)]
    ratios = [side for side in ("torch", "upstream") if side in sides and "ours" in sides]
    heads = ("ms", *(TITLES[side] for side in sides), *map(_ratio_head, ratios), "error")
    body, notes = [], []
    for row in mine:
        cells = [_time(row.times[side]) for side in sides]
        cells += [_ratio(row, side) for side in ratios]
        error = f"{row.times['ours'].error:.0e}" if "ours" in row.times else ""
        body.append((row.title, *cells, error))
        notes += [f"{row.title}: {note}" for note in _notes(row, sides)]
    title = f"Run time, {threads} thread{'s' if threads > 1 else ''}"
    return Sheet(title, heads, tuple(body), tuple(notes))


def check_sheet(rows: Sequence[Row], threads: int) -> Sheet | None:
    """Return the table of times and memory with checks, or None if no side has checks."""
    mine = [row for row in rows if row.threads == threads]
    sides = [side for side in _UNDER_CHECKS if any(side in row.times for row in mine)]
    checked = [side for side in CHECKED if side in sides]
    if not checked:
        return None
    plain = ["ours"] if "ours" in sides else []
    heads = ["ms", *(TITLES[side] for side in sides), *(_RATIOS[side] for side in checked)]
    heads += [f"{name} MiB" for name in [*plain, *checked]]
    body, notes = [], []
    for row in mine:
        cells = [_time(row.times[side]) for side in sides]
        cells += [_slowdown(row, side) for side in checked]
        cells += [f"{row.times[side].peak_bytes / 2**20:.1f}" for side in [*plain, *checked]]
        body.append((row.title, *cells))
        notes += [f"{row.title}: {note}" for note in _notes(row, [*checked, "viz"])]
        notes += [
            f"{row.title}: {TITLES[side]} found {', '.join(row.times[side].findings)}"
            for side in checked
            if row.times[side].findings
        ]
    title = f"Under the checks, {threads} thread{'s' if threads > 1 else ''}"
    return Sheet(title, tuple(heads), tuple(body), tuple(dict.fromkeys(notes)))


def _slowdown(row: Row, side: str) -> str:
    ratio = row.slowdown(side)
    return "-" if ratio is None else f"{ratio:.2f}x"


def _ratio_head(side: str) -> str:
    return "ttools / torch" if side == "torch" else "upstream / ttools"


def _ratio(row: Row, side: str) -> str:
    ratio = row.ratio(side)
    if ratio is None:
        return "-"
    return f"{ratio:.2f}x" if side == "torch" else f"{1 / ratio:,.0f}x"


def _time(times: Times) -> str:
    if not times.samples:
        return "-"
    return milliseconds(times.median) + (" ~" if _is_noisy(times) else "")


def _is_noisy(times: Times) -> bool:
    return times.spread > NOISY or sorted(times.waited)[len(times.waited) // 2] > NOISY


def _notes(row: Row, sides: Sequence[str]) -> list[str]:
    notes = []
    for side, times in row.times.items():
        if side not in sides:
            continue
        if times.note:
            notes.append(f"{TITLES[side]} skipped: {times.note}")
        elif times.factor > 1:
            notes.append(
                f"{TITLES[side]} ran one in {times.factor} programs; its time is {times.factor} "
                "times that"
            )
    return notes


def compile_sheets(compilation: dict[str, list[dict[str, Any]]]) -> list[Sheet]:
    """Return the tables of cold and warm compilation by phase."""
    sheets = []
    for kind, records in compilation.items():
        phases = [p for p in PHASES if any(r["phases"][p] for r in records)]
        body = [
            (
                _kernel(record),
                *(f"{record['phases'][phase] * 1e3:.1f}" for phase in phases),
                f"{record['memory']['peak'] / 2**20:.1f}",
                f"{record['memory']['arena'] / 2**10:.1f}",
            )
            for record in records
        ]
        title = f"Compilation, {'cold' if kind == 'cold' else 'warm from disk'}"
        heads = ("ms", *phases, "peak MiB", "arena KiB")
        sheets.append(Sheet(title, heads, tuple(body)))
    return sheets


def checked_compile_sheet(compilation: Sequence[dict[str, Any]]) -> Sheet:
    """Return the table of cold compilation with checks."""
    body = [
        (
            _kernel(record),
            *(f"{record[side] * 1e3:.1f}" for side in ("ours", *CHECKED)),
            *(f"{record[side] / record['ours']:.2f}x" for side in CHECKED),
        )
        for record in compilation
    ]
    heads = ["ms", TITLES["ours"], *(TITLES[side] for side in CHECKED)]
    heads += _RATIOS.values()
    return Sheet("Compilation under the checks, cold", tuple(heads), tuple(body))


def _kernel(record: dict[str, Any]) -> str:
    if not record["title"]:
        return f"{record['kernel']}, the process's first"
    return f"{record['kernel']}, {record['title']}"


def launch_sheet(launch: dict[str, Any]) -> Sheet:
    """Return the table of the launch of a tiny kernel."""
    body = (
        ("a launch", f"{launch['launch_s'] * 1e6:.1f}"),
        ("the same with a launcher that does nothing", f"{launch['triton_s'] * 1e6:.1f}"),
        ("difference", f"{launch['overhead_s'] * 1e6:.1f}"),
        *((f"under {TITLES[side]}", f"{launch[f'{side}_s'] * 1e6:.1f}") for side in CHECKED),
    )
    return Sheet("Launch of a tiny kernel, warm", ("µs", "median"), body)


def figure_sheet(figures: Sequence[Figure]) -> Sheet:
    """Return the table of figures and targets."""
    body = tuple(
        (figure.name, figure.value, figure.limit, "reached" if figure.reached else "not reached")
        for figure in figures
    )
    notes = tuple(
        f"{figure.name}: missed by {', '.join(figure.missed_by)}"
        for figure in figures
        if figure.missed_by
    )
    return Sheet("Targets", ("figure", "measured", "target", ""), body, notes)
