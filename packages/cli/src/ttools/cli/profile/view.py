"""`ttools profile view`: files written by Proton, as a tree with metrics."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from ttools.cli import options
from ttools.cli.console import require_folder, say, write_json, write_tables, write_text
from ttools.cli.markdown import markdown

if TYPE_CHECKING:
    from ttools.profiler.view.file import Number, ProtonProfile
    from ttools.profiler.view.node_table import Row


FilesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...", help="Trees or traces that Proton wrote.", show_default=False
    ),
]
ListOption = Annotated[bool, typer.Option("--list", "-l", help="List the metrics instead.")]
MetricsOption = Annotated[
    list[str] | None,
    typer.Option(
        "-m",
        "--metrics",
        metavar="METRIC,…",
        help="time/ms, avg_time/us, count, tflop16/s, gbyte/s, util, time/%, or the file's own; "
        "repeatable.",
    ),
]
IncludeOption = Annotated[
    str | None,
    typer.Option(
        "--include",
        "-i",
        metavar="REGEX",
        help="Show only entries with matching names, with their parents and children.",
    ),
]
ExcludeOption = Annotated[
    str | None,
    typer.Option("--exclude", "-e", metavar="REGEX", help="Leave out entries with matching names."),
]
DepthOption = Annotated[
    int | None, typer.Option("--depth", "-d", min=0, metavar="N", help="Number of levels to show.")
]
ThresholdOption = Annotated[
    float,
    typer.Option(
        "--threshold",
        "-t",
        min=0.0,
        max=100.0,
        metavar="PERCENT",
        help="Leave out entries whose share of the first metric is smaller.",
    ),
]
FormatOption = Annotated[
    Literal["text", "markdown", "json", "csv"],
    typer.Option("--format", help="Format of the report."),
]


def profile_view_command(
    files: FilesArgument,
    list_metrics: ListOption = False,
    metrics: MetricsOption = None,
    include: IncludeOption = None,
    exclude: ExcludeOption = None,
    depth: DepthOption = None,
    threshold: ThresholdOption = 0.0,
    form: FormatOption = "text",
    output: options.OutputOption = None,
) -> None:
    """Show files written by Proton: `.hatchet`, `.hatchet_msgpack`, `.chrome_trace`.

    Several files are shown side by side; from the second on, each has its ratio to the first.
    """
    from ttools.profiler.view.file import read
    from ttools.profiler.view.metrics import columns
    from ttools.profiler.view.node_table import Selection, rows

    require_folder(output)
    profiles = [read(path) for path in files]
    if list_metrics:
        _list(profiles, output)
        return
    names = [name for text in metrics or [] for name in text.split(",") if name.strip()]
    if not any(profile.metrics for profile in profiles):
        say("note", "the files contain no metrics, because nothing ran while Proton recorded")
    metric_columns = columns(names, profiles)
    chosen = Selection(include=include, exclude=exclude, depth=depth, least=threshold)
    selected = rows(profiles, metric_columns, chosen)
    headings = [column.name for column in metric_columns]
    if form == "text":
        write_tables([_table(profiles, headings, selected)], output)
    elif form == "markdown":
        write_text(markdown([_table(profiles, headings, selected)]), output)
    elif form == "csv":
        write_text(_csv(profiles, headings, selected), output)
    else:
        write_json(_data(profiles, headings, selected), output)
    if "util" in headings and all(value is None for value in _of("util", headings, selected)):
        say(
            "note",
            "util is unknown: it needs the flops or bytes of kernels, given by launch_metadata or "
            "scopes, and a device whose peak rates are known",
        )


def _list(profiles: list[ProtonProfile], output: Path | None) -> None:
    from ttools.profiler.view.metrics import available

    lines = []
    for profile in profiles:
        own, derived = available(profile)
        lines += [profile.name, "  metrics: " + (", ".join(own) or "none")]
        lines += ["  derived: " + ", ".join(derived)] if derived else []
    write_text("\n".join(lines) + "\n", output)


def _headings(profiles: list[ProtonProfile], names: list[str]) -> list[str]:
    """Return the headings: each metric for each file and, from the second file on, a ratio."""
    if len(profiles) == 1:
        return names
    headings = []
    for name in names:
        for index, profile in enumerate(profiles):
            headings += [f"{name} {profile.name}", *([f"{name} ratio"] if index else [])]
    return headings


def _cells(row: Row, count: int) -> list[Number | None]:
    if len(row.values) == 1:
        return list(row.values[0])
    cells: list[Number | None] = []
    for metric in range(count):
        base = row.values[0][metric]
        for index, values in enumerate(row.values):
            value = values[metric]
            cells.append(value)
            if index:
                has_ratio = isinstance(base, float) and isinstance(value, float) and base
                cells.append(value / base if has_ratio else None)  # type: ignore[operator]
    return cells


def _table(profiles: list[ProtonProfile], names: list[str], selected: list[Row]) -> Table:
    names_of_files = ", ".join(profile.name for profile in profiles)
    title = Text(names_of_files, style="table.title", no_wrap=True, overflow="ignore")
    table = Table(title=title, title_justify="left")
    table.add_column("name", overflow="fold")
    shown = [[_shown(value) for value in _cells(row, len(names))] for row in selected]
    for column, heading in enumerate(_headings(profiles, names)):
        # In narrow terminals titles are wrapped, but numbers are not.
        widest = max((len(cells[column]) for cells in shown), default=0)
        table.add_column(heading, justify="right", overflow="fold", min_width=widest)
    for row, cells in zip(selected, shown, strict=True):
        table.add_row(Text("  " * (len(row.path) - 1) + row.path[-1]), *cells)
    return table


def _shown(value: Number | None) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return "[" + ", ".join(_shown(item) for item in value) + "]"
    whole = abs(value) >= 1000 or value.is_integer()
    return f"{value:,.0f}" if whole else f"{value:.4g}"


def _csv(profiles: list[ProtonProfile], names: list[str], selected: list[Row]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["path", "name", *_headings(profiles, names)])
    for row in selected:
        writer.writerow(["/".join(row.path[:-1]), row.path[-1], *_cells(row, len(names))])
    return text.getvalue()


def _data(profiles: list[ProtonProfile], names: list[str], selected: list[Row]) -> dict[str, Any]:
    return {
        "schema": "ttools.view/1",
        "files": [profile.name for profile in profiles],
        "metrics": names,
        "rows": [{"path": list(row.path), "values": row.values} for row in selected],
    }


def _of(name: str, names: list[str], selected: list[Row]) -> list[Number | None]:
    return [values[names.index(name)] for row in selected for values in row.values]
