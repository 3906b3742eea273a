"""Profiles as tables, and in the formats that other programs read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from ttools.cli.console import new_table, write_tables, write_text
from ttools.cli.markdown import markdown
from ttools.cli.profile.text import blocks, metric_cells, narrow_accesses
from ttools.core.json_document import json_text
from ttools.core.location import shown_path
from ttools.core.reports.csv import csv_text
from ttools.core.reports.numbers import amount, number, percent, seconds
from ttools.core.reports.report import counted
from ttools.profiler.metrics import ACCESSES, KERNELS, LINES, Metric, Row, chosen

if TYPE_CHECKING:
    from ttools.core.compilation.specialisation_report import SpecialisationReport
    from ttools.profiler import ProfileAnalysis
    from ttools.profiler.report.call_tree import Node

_KERNELS = chosen(
    KERNELS,
    *("config", "launches", "total_s", "share", "min_s", "median_s", "p95_s", "max_s"),
    *("overhead_median_s", "flops", "bytes", "unique_bytes", "masked_share"),
)


def write_tables_of(
    profiled: ProfileAnalysis, form: str, output: Path | None, *, lines: bool, tree: bool
) -> None:
    """Write a block per kernel as text, or tables of kernels, device, lines and scopes as Markdown.

    Args:
        profiled: Analysis of a run.
        form: Format, `text` or `markdown`.
        output: File to write; by default standard output.
        lines: If True, source lines are included.
        tree: If True, kernels are grouped by Proton scope.
    """
    if form == "markdown":
        write_text(markdown(_tables(profiled, lines, tree)), output)
    else:
        scopes = [_tree(profiled)] if tree else []
        write_tables([*blocks(profiled, lines=lines), *scopes], output)


def write(
    profiled: ProfileAnalysis, form: str, output: Path | None, lines: bool, target: str, status: int
) -> None:
    """Write a profile in one of the other formats: `json`, `csv`, `chrome` or `html`.

    Args:
        profiled: Analysis of a run.
        form: Name of the format.
        output: File to write; by default standard output.
        lines: If True, CSV has rows for lines instead of kernels.
        target: The program as the user wrote it.
        status: Exit status of the program.
    """
    makers: dict[str, Callable[[], str]] = {
        "json": lambda: _json(profiled, target, status),
        "csv": lambda: csv_text(profiled.lines) if lines else profiled.to("csv"),
        "chrome": lambda: profiled.to("chrome"),
        "html": lambda: _page(profiled, target),
    }
    write_text(makers[form](), output)


def _json(profiled: ProfileAnalysis, target: str, status: int) -> str:
    from ttools.profiler.report.json import as_data

    return json_text(as_data(profiled, {"target": target, "exit_code": status}))


def _page(profiled: ProfileAnalysis, target: str) -> str:
    from ttools.profiler.report.html import write_page

    return write_page(profiled, target=target)


def _tables(profiled: ProfileAnalysis, lines: bool, tree: bool) -> Iterator[Table | Tree]:
    yield _kernels(profiled)
    if profiled.device is not None:
        yield _bounds(profiled)
    if profiled.target is not None:
        yield _compiled(profiled)
    if tree:
        yield _tree(profiled)
    if lines:
        yield _lines(profiled)
        if len(profiled.accesses):
            yield _accesses(profiled)
    if profiled.advice:
        yield _advice(profiled)
    if profiled.compilations is not None:
        yield from _compilations(profiled.compilations)


def _compilations(report: SpecialisationReport) -> Iterator[Table]:
    """Yield a table of the kernels that were compiled more than once, if there are any."""
    kernels = [kernel for kernel in report.kernels if len(kernel.compilations) > 1]
    if not kernels:
        return
    table = new_table("Compilations", ("kernel", "cause"), ("launches", "seconds"))
    for kernel in kernels:
        for item in kernel.compilations:
            took = f"{item.entry.seconds:.2f}"
            table.add_row(kernel.name, str(item.cause), f"{item.entry.launches:,}", took)
    yield table


def _metric_table(title: str, metrics: Sequence[Metric], rows: Sequence[Row]) -> Table:
    """Return a table of kernels and metrics; rows for source lines have a position column."""
    placed = any(metric.name == "line" for metric in metrics)
    shown = [metric for metric in metrics if metric.name != "line"]
    texts = [metric for metric in shown if metric.kind == "text"]
    numbers = [metric for metric in shown if metric.kind != "text"]
    left = ["kernel", *(["line"] if placed else []), *(metric.heading for metric in texts)]
    table = new_table(title, left, [metric.heading for metric in numbers])
    for row in rows:
        place = [f"{shown_path(row['file'])}:{row['line']}"] if placed else []
        table.add_row(_name(row), *place, *metric_cells([*texts, *numbers], row))
    return table


def _name(row: Row) -> str:
    is_kernel = row.get("kind") not in ("copy", "fill")
    return str(row["kernel"]) if is_kernel else f"{row['kernel']} (not a kernel)"


def _accesses(profiled: ProfileAnalysis) -> Table:
    assert profiled.target is not None
    metrics = chosen(
        ACCESSES,
        *("line", "grid", "specialisation", "kind", "bits", "sectors_per_request"),
        *("ideal_per_request", "efficiency", "shared_by", "again"),
    )
    return _metric_table(
        f"Accesses by warps of {profiled.target.name}",
        metrics,
        profiled.accesses.to_dict("records"),
    )


def _advice(profiled: ProfileAnalysis) -> Table:
    table = new_table("Advice", ("kernel", "line", "what costs time", "what to try"), ())
    for hint in profiled.advice:
        location = hint.location
        table.add_row(
            f"{hint.kernel} [{hint.config}]" if hint.config else hint.kernel,
            f"{shown_path(location.file)}:{location.line}" if location else "",
            f"{hint.kind}: {hint.evidence}",
            hint.advice,
        )
    return table


def _tree(profiled: ProfileAnalysis) -> Tree:
    def add(node: Node, below: Tree | None) -> Tree:
        launches = counted(node.launches, "launch", "launches")
        facts = [seconds(node.seconds), launches, amount(node.flops, "flop")]
        text = f"{node.name}  {', '.join(fact for fact in facts if fact)}"
        metrics = "".join(f", {name}={value:g}" for name, value in node.metrics.items())
        label = Text(text + metrics)
        branch = Tree(label) if below is None else below.add(label)
        for child in node.children.values():
            add(child, branch)
        return branch

    return add(profiled.tree, None)


def _kernels(profiled: ProfileAnalysis) -> Table:
    rows = profiled.frame.to_dict("records")
    table = _metric_table(f"Kernels on {profiled.timed_on}", _KERNELS, rows)
    estimated = {
        row["kernel"]: row["estimated"] for row in rows if isinstance(row["estimated"], str)
    }
    if estimated:
        reasons = "; ".join(f"{kernel}: {reason}" for kernel, reason in estimated.items())
        table.caption, table.caption_justify = f"Estimated: {reasons}", "left"
    return table


def _bounds(profiled: ProfileAnalysis) -> Table:
    from ttools.profiler.gpu_time.projection import ASSUMPTIONS as PROJECTION
    from ttools.profiler.gpu_time.roofline import assumptions_of

    assert profiled.device is not None
    table = new_table(
        f"Lower bounds for {profiled.device.name}", ("kernel", "config", "limited by"), ()
    )
    on_device = "efficiency" in profiled.frame
    names = ["time of a launch", "flop per byte", "flop/s", "bytes/s"]
    projected = "projected_s" in profiled.frame
    names += ["of the peak"] if on_device else []
    for name in [*names, "projected"] if projected else names:
        table.add_column(name, justify="right")
    table.caption = assumptions_of(profiled.device, profiled.frame.to_dict("records"))
    if on_device:
        table.caption += ". Operations and unique bytes per second are measured"
    if projected:
        table.caption += f". Projected, not bounded: {PROJECTION}"
        for row in profiled.frame.to_dict("records"):
            if row["projected_outside"]:
                table.caption += f". *{row['kernel']}: {row['projected_outside']}"
    table.caption_justify = "left"
    for row in profiled.frame.to_dict("records"):
        if row["kind"] != "kernel":
            continue
        limit = row["bound_s"]
        is_bounded = isinstance(limit, float) and limit > 0
        rates = _rates(row, on_device)
        table.add_row(
            row["kernel"],
            row["config"],
            row["limited_by"] if is_bounded else "unknown",
            seconds(limit),
            number(row["intensity"]),
            *((amount(rates[0]), amount(rates[1], "B")) if is_bounded else ("", "")),
            *([percent(row["efficiency"])] if on_device else []),
            *([_projected(row)] if projected else []),
        )
    return table


def _projected(row: Mapping[Any, Any]) -> str:
    """Return a time with its interval; a star marks projections outside the model's range."""
    from ttools.profiler.gpu_time.projection import projection_text

    if row["projected_s"] != row["projected_s"]:
        return "cannot launch" if isinstance(row.get("cannot_launch"), str) else ""
    names = "projected_s", "projected_low_s", "projected_high_s", "projected_outside"
    return projection_text(*(row[name] for name in names), star=True)


def _rates(row: Mapping[Any, Any], on_device: bool) -> tuple[float, float]:
    """Return operations and unique bytes per second, by the measured time or else by the bound."""
    taken = row["mean_s"] if on_device else row["bound_s"]
    return row["flops"] / taken, row["unique_bytes"] / taken


def _compiled(profiled: ProfileAnalysis) -> Table:
    assert profiled.target is not None
    table = new_table(
        f"Compiled for {profiled.target.name}",
        ("kernel", "occupancy limited by", "narrow accesses", "matrix units"),
        ("registers", "spilled", "shared", "occupancy"),
    )
    for inspection in profiled.inspections:
        resources, occupancy = inspection.resources, inspection.occupancy
        table.add_row(
            inspection.source.name,
            occupancy.limited_by if occupancy else "unknown",
            narrow_accesses(inspection),
            ", ".join(
                sorted({instructions.name.split(".")[0] for instructions in inspection.matrix})
            ),
            f"{resources.registers}",
            amount(resources.spilled, "B"),
            amount(resources.shared, "B"),
            percent(occupancy.share) if occupancy else "",
        )
    return table


def _lines(profiled: ProfileAnalysis) -> Table:
    frame = profiled.lines
    times = ("time_s", "time_share") if frame["time_s"].notna().any() else ()
    names = ("executions", "loaded", "stored", "atomic", "masked_share", "flops")
    return _metric_table(
        "Lines, over all launches",
        chosen(LINES, "line", "operations", *times, *names),
        frame.to_dict("records"),
    )
