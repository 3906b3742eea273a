"""The command line of the comparison.

Exit status: 0 if every row is within its bound, 1 if one is not, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress

from tools.gpu_op_table.execution import Outcome, run_groups
from tools.gpu_op_table.report import Report, as_json, as_markdown, print_report
from tools.gpu_op_table.rows import Row, groups
from tools.gpu_op_table.table import table
from tools.harness import output_console, positive, versions_and_machine, write_section

PIPE_WIDTH = 130  # width of tables if standard output is not a terminal


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.gpu_op_table",
        description="Compares the engine with a GPU, operation by operation and type by type.",
    )
    parser.add_argument(
        "--reference",
        choices=("gpu", "materialised", "eager"),
        default="gpu",
        help="what the engine is compared with: the GPU, its own unoptimised schedule, or the"
        " eager engine on some programs; only `gpu` needs a GPU (default gpu)",
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="rows that contain the text"
    )
    parser.add_argument(
        "--jobs", type=positive, default=1, metavar="N", help="processes (default 1)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="every row, as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="the tables, as Markdown")
    return parser.parse_args(arguments)


def chosen_rows(only: list[str]) -> list[Row]:
    """Return the rows whose keys contain one of the texts, or all rows if there are no texts."""
    return [row for row in table() if not only or any(text in row.key for text in only)]


def describe(options: argparse.Namespace) -> dict[str, str]:
    """Return the command, versions and machine of a run."""
    words = [f"--reference {options.reference} --jobs {options.jobs}"]
    words += (f"--only {text!r}" for text in options.only)
    gpu = torch.cuda.get_device_name() if options.reference == "gpu" else "none"
    cuda = [f"CUDA {torch.version.cuda}"] if torch.version.cuda else []
    return {
        "command": f"`python -m tools.gpu_op_table {' '.join(words)}`",
        "GPU": gpu,
        **versions_and_machine(*cuda),
    }


def compare(options: argparse.Namespace, rows: list[Row], console: Console) -> Report:
    """Run the rows; on terminals, show a progress bar."""
    begin = time.perf_counter()
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("rows", total=len(rows))

        def done(outcome: Outcome) -> None:
            progress.advance(task)

        outcomes = run_groups(groups(rows), options.reference, options.jobs, done)
    place = {row.key: index for index, row in enumerate(rows)}
    return Report(
        settings=describe(options),
        outcomes=sorted(outcomes, key=lambda o: place[o.row.key]),
        seconds=time.perf_counter() - begin,
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the rows and print the report."""
    options = parse_arguments(arguments)
    errors = Console(stderr=True)
    rows = chosen_rows(options.only)
    if not rows:
        errors.print("gpu_op_table: no row contains any text given by --only", markup=False)
        return 2
    if options.reference == "gpu" and not torch.cuda.is_available():
        errors.print(
            "gpu_op_table: torch sees no GPU; --reference materialised runs without one",
            markup=False,
            soft_wrap=True,
        )
        return 2
    report = compare(options, rows, errors)
    print_report(report, output_console(PIPE_WIDTH))
    if options.json:
        options.json.write_text(json.dumps(as_json(report), indent=1) + "\n", encoding="utf-8")
    if options.markdown:
        write_section(options.markdown, "gpu agreement", as_markdown(report))
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
