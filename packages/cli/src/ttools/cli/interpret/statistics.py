"""The report of `--stats`: what the launches of a run cost, as a table or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from ttools.cli.console import new_table, stderr, stdout, write_json, write_tables

if TYPE_CHECKING:
    from ttools.interpreter.run.stats import KernelStats

SCHEMA_VERSION = 1


def as_json(costs: Sequence[KernelStats], target: str, exit_code: int) -> dict[str, Any]:
    """The report as data; the script's status is separate from the kernels."""
    return {
        "schema": SCHEMA_VERSION,
        "script": {"target": target, "exit_code": exit_code},
        "kernels": [asdict(cost) for cost in costs],
    }


def as_table(costs: Sequence[KernelStats]) -> Table:
    """The report as a table, times in milliseconds, slowest kernel first."""
    numbers = ("launches", "programs", "front end ms", "compile ms", "run ms", "cached")
    table = new_table("Kernel launches", ["kernel"], numbers)
    for cost in sorted(costs, key=lambda cost: sum(_times(cost)), reverse=True):
        table.add_row(
            cost.kernel,
            f"{cost.launches:,}",
            f"{cost.programs:,}",
            *(f"{seconds * 1e3:,.2f}" for seconds in _times(cost)),
            f"{cost.cache_hits:,}",
        )
    return table


def _times(cost: KernelStats) -> tuple[float, float, float]:
    return cost.front_end_s, cost.compile_s, cost.run_s


def report(
    costs: Sequence[KernelStats],
    *,
    form: str,
    output: Path | None,
    on_stdout: bool,
    target: str,
    exit_code: int,
) -> None:
    """Writes the report to a file, or else to standard error, away from the script's output.

    Args:
        costs: what each kernel cost.
        form: `text` or `json`.
        output: a file.
        on_stdout: whether it goes to standard output if there is no file.
        target: what was run, as the user wrote it.
        exit_code: its exit status.
    """
    if form == "json":
        stream = None if on_stdout else sys.stderr
        write_json(as_json(costs, target, exit_code), output, stream)
    else:
        write_tables([as_table(costs)], output, stdout() if on_stdout else stderr())
