"""The report of `--stats`: what the launches of a run cost, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from rich.table import Table

from ttools.cli.console import stderr, write_json, write_tables

SCHEMA_VERSION = 1


class KernelCost(Protocol):
    """What the interpreter counts for one kernel; times in seconds."""

    kernel: str
    launches: int
    programs: int
    front_end_s: float
    compile_s: float
    run_s: float
    cache_hits: int


_FIELDS = ("kernel", "launches", "programs", "front_end_s", "compile_s", "run_s", "cache_hits")


def as_json(costs: Sequence[KernelCost], target: str, exit_code: int) -> dict[str, Any]:
    """The report as data; the script's status is separate from the kernels."""
    return {
        "schema": SCHEMA_VERSION,
        "script": {"target": target, "exit_code": exit_code},
        "kernels": [{field: getattr(cost, field) for field in _FIELDS} for cost in costs],
    }


def as_table(costs: Sequence[KernelCost]) -> Table:
    """The report as a table, times in milliseconds, slowest kernel first."""
    table = Table(title="Kernel launches", title_justify="left")
    table.add_column("kernel", overflow="fold")
    for name in ("launches", "programs", "front end ms", "compile ms", "run ms", "cached"):
        table.add_column(name, justify="right")
    for cost in sorted(costs, key=_total, reverse=True):
        times = (cost.front_end_s, cost.compile_s, cost.run_s)
        table.add_row(
            cost.kernel,
            f"{cost.launches:,}",
            f"{cost.programs:,}",
            *(f"{seconds * 1e3:,.2f}" for seconds in times),
            f"{cost.cache_hits:,}",
        )
    return table


def _total(cost: KernelCost) -> float:
    return cost.front_end_s + cost.compile_s + cost.run_s


def report(
    costs: Sequence[KernelCost], *, form: str, output: Path | None, target: str, exit_code: int
) -> None:
    """Writes the report to a file, or else to standard error, away from the script's output."""
    if form == "json":
        write_json(as_json(costs, target, exit_code), output, stderr())
    else:
        write_tables([as_table(costs)], output, stderr())
