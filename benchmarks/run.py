"""Measures ttools against torch and Triton's own interpreter: `make bench`.

This module contains the command line. docs/reference/benchmarks.md describes the results.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from arguments import read_sides, read_threads, read_workloads
from checked_compile_time import measure_checked_compilation
from compile_time import measure_compilation
from figures import (
    Figure,
    checked_compile_figures,
    compile_figures,
    launch_figure,
    speed_figures,
)
from launch_overhead import measure_launch
from report import (
    check_sheet,
    checked_compile_sheet,
    compile_sheets,
    figure_sheet,
    launch_sheet,
    speed_sheet,
)
from rich.console import Console
from sides import CHECKED, HERE, SIDES, Plan, Row, measure_workloads

SCHEMA = 1
#: Number of compilations of each kernel; the report shows the median.
COMPILATIONS = 5
RESULTS = HERE / "results"


def _machine() -> dict[str, Any]:
    from ttools.interpreter.native.jit import host_lanes

    return {
        "cpus": len(os.sched_getaffinity(0)),
        "architecture": platform.machine(),
        "f32_lanes": host_lanes(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "triton", "llvmlite", "ttools-interpreter")},
    }


def _load() -> float:
    """Return the load average: the number of runnable processes over the last minute."""
    return os.getloadavg()[0]


def main(
    only: Annotated[str, typer.Option(help="Workloads whose names contain one of these.")] = "",
    sides: Annotated[str, typer.Option(help=f"Sides among {', '.join(SIDES)}.")] = ",".join(SIDES),
    repeat: Annotated[int, typer.Option(min=1, help="Samples of each side.")] = 7,
    upstream_repeat: Annotated[
        int, typer.Option(min=1, help="Samples of TRITON_INTERPRET=1 and of triton-viz.")
    ] = 2,
    threads: Annotated[str, typer.Option(help="Numbers of threads; `all` CPUs.")] = "1,all",
    json_file: Annotated[
        Path, typer.Option("--json", help="File of the results; a Markdown file is written, too.")
    ] = RESULTS / "latest.json",
    quick: Annotated[bool, typer.Option(help="Two samples, one compilation.")] = False,
) -> None:
    """Measure speed against torch and TRITON_INTERPRET=1, and what checking costs."""
    plan = Plan(
        sides=read_sides(sides), repeat=2 if quick else repeat, upstream_repeat=upstream_repeat
    )
    numbers = read_threads(threads)
    workloads = read_workloads(only)
    # If the output is not a terminal, rich would truncate the tables.
    console = Console(width=None if sys.stdout.isatty() else 180)
    errors = Console(stderr=True)
    before = _load()
    compilations = 1 if quick else COMPILATIONS

    def tell(row: Row) -> None:
        errors.print(f"measured {row.title}, threads: {row.threads}", highlight=False)

    compilation, checked, launch, figures = None, None, None, list[Figure]()
    with tempfile.TemporaryDirectory() as caches:
        rows = measure_workloads(workloads, numbers, plan, Path(caches), tell)
        figures += speed_figures(rows)
        if "ours" in plan.sides:
            errors.print("measuring compilation and launch")
            compilation = measure_compilation(only, compilations)
            launch = measure_launch(plan.repeat, Path(caches))
            figures += [*compile_figures(compilation), launch_figure(launch)]
        if "ours" in plan.sides and set(CHECKED) & set(plan.sides):
            errors.print("measuring compilation under the checks")
            checked = measure_checked_compilation(workloads, compilations)
            figures += checked_compile_figures(checked)

    sheets = [speed_sheet(rows, number) for number in numbers]
    sheets += [sheet for number in numbers if (sheet := check_sheet(rows, number))]
    sheets += compile_sheets(compilation) if compilation else []
    sheets += [checked_compile_sheet(checked)] if checked else []
    sheets += [launch_sheet(launch)] if launch else []
    sheets += [figure_sheet(figures)] if figures else []
    for sheet in sheets:
        sheet.show(console)
    load = f"load average {before:.1f} before, {_load():.1f} after"
    console.print(f"{load}; `~` marks times that vary or were disturbed", highlight=False)
    results = {
        "schema": SCHEMA,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": {**_machine(), "load_before": before, "load_after": _load()},
        "plan": {
            "repeat": plan.repeat,
            "upstream_repeat": upstream_repeat,
            "threads": numbers,
            "compilations": compilations,
        },
        "rows": [row.to_json() for row in rows],
        "compilation": compilation,
        "checked_compilation": checked,
        "launch": launch,
        "figures": [figure.to_json() for figure in figures],
    }
    json_file.parent.mkdir(parents=True, exist_ok=True)
    json_file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    markdown = "\n".join(sheet.markdown() for sheet in sheets)
    json_file.with_suffix(".md").write_text(f"{markdown}\n{load}\n", encoding="utf-8")
    console.print(f"written: {json_file}", highlight=False)


if __name__ == "__main__":
    typer.run(main)
