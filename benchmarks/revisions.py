"""Compares this tree with an earlier revision: run time, slowdown by memcheck, and compile time.

    .venv/bin/python benchmarks/revisions.py <revision>

The speed of a machine varies over time by more than the differences that are to be measured.
Therefore processes of both revisions exist at the same time and are measured alternately, and each
round gives one ratio. The memory addresses of a process are random, stay the same until it ends,
and affect its speed. Therefore every row is measured by several pairs of processes, and the table
shows the range of their ratios.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer
from arguments import read_sides, read_threads, read_workloads
from report import Sheet, milliseconds
from rich.console import Console
from sides import CHECKED, HERE, SideProcess

#: The tree that contains this file.
NOW = HERE.parent
_OURS = ("ours", *CHECKED)

#: A pair's answers to one request: that of the earlier revision, and that of this tree.
Pair = tuple[Any, Any]


@dataclass
class Comparison:
    """One row of one table.

    Attributes:
        title: First cell of the row.
        shown: Formats a sample as text.
        before: Samples of the earlier revision, one list for each pair of processes.
        now: Samples of this tree in the same rounds, one list for each pair of processes.
    """

    title: str
    shown: Callable[[float], str] = milliseconds
    before: list[list[float]] = field(default_factory=list)
    now: list[list[float]] = field(default_factory=list)

    @property
    def by_process(self) -> list[float]:
        """Return the ratio of the current to the earlier times, for each pair of processes."""
        return [
            statistics.median(b / a for a, b in zip(one, two, strict=True))
            for one, two in zip(self.before, self.now, strict=True)
        ]

    @property
    def ratio(self) -> float:
        """Return the median ratio of the current to the earlier times."""
        return statistics.median(self.by_process)

    def cells(self) -> tuple[str, ...]:
        """Return the row as text: title, minimum samples, ratio, range of the pairs' ratios."""
        ratios = self.by_process
        least = [self.shown(min(chain(*times))) for times in (self.before, self.now)]
        return self.title, *least, f"{self.ratio:.3f}", f"{min(ratios):.3f}-{max(ratios):.3f}"


@contextmanager
def _tree(revision: str) -> Iterator[Path]:
    """Check out a revision into a temporary folder, which is removed at the end of the context."""
    git = ["git", "-C", str(NOW)]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        added = [*git, "worktree", "add", "--quiet", "--detach", str(tree), revision]
        if subprocess.run(added, check=False).returncode:
            raise typer.BadParameter(f"{revision}: git has no such revision")
        try:
            yield tree
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)


def _paths(tree: Path) -> dict[str, str]:
    """Return environment variables that make a process import the packages of a tree."""
    sources = [str(path) for path in sorted(tree.glob("packages/*/src"))]
    # Torch would load backends that are registered in the environment, even those of another tree.
    return {
        "PYTHONPATH": os.pathsep.join([*sources, str(tree)]),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }


@contextmanager
def _pair(trees: Sequence[Path], side: str, threads: int, program: str) -> Iterator[list[Any]]:
    """Start a process of each tree, each with its own caches."""
    with tempfile.TemporaryDirectory() as caches:
        pair = [
            SideProcess(
                side, threads, Path(caches) / str(n), tree / "benchmarks" / program, _paths(tree)
            )
            for n, tree in enumerate(trees)
        ]
        try:
            yield pair
        finally:
            for process in pair:
                process.close()


def _asked(pair: Sequence[SideProcess], number: int, **request: Any) -> Pair:
    """Return both processes' answers; which one is asked first alternates between rounds."""
    order = (1, 0) if number % 2 else (0, 1)
    answers = {n: pair[n].ask(**request) for n in order}
    return answers[0], answers[1]


def _add(row: Comparison, rounds: Sequence[tuple[float, float]]) -> None:
    """Add the samples of a pair of processes to a row."""
    row.before.append([before for before, _ in rounds])
    row.now.append([now for _, now in rounds])


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The workloads to measure, and the number of measurements.

    Attributes:
        trees: The trees of the earlier revision and of this one.
        workloads: Elements of `workloads.rows.WORKLOADS`.
        processes: Number of pairs of processes for each row.
        rounds: Number of rounds for each pair.
    """

    trees: Sequence[Path]
    workloads: Sequence[Any]
    processes: int
    rounds: int


def _run_times(plan: Plan, side: str, threads: int) -> dict[str, dict[str, Comparison]]:
    """Return rows by table title: times and, for sides with checks, also slowdowns."""
    times: dict[str, Comparison] = {}
    costs: dict[str, Comparison] = {}
    for _ in range(plan.processes):
        with _pair(plan.trees, side, threads, "measure.py") as pair:
            for workload in plan.workloads:
                title = workload.title
                _asked(pair, 0, prepare=workload.name)
                rounds = [_asked(pair, n) for n in range(plan.rounds)]
                _add(
                    times.setdefault(title, Comparison(title)),
                    [(before["seconds"], now["seconds"]) for before, now in rounds],
                )
                if side in CHECKED:
                    _add(
                        costs.setdefault(title, Comparison(title, "{:.3f}".format)),
                        [(_cost(before), _cost(now)) for before, now in rounds],
                    )
    return {f"{side}, ms": times, **({f"{side} / unchecked": costs} if costs else {})}


def _cost(answer: Mapping[str, float]) -> float:
    return answer["seconds"] / answer["unchecked"]


def _compile_times(plan: Plan, side: str) -> dict[str, Comparison]:
    """Return the times of cold compilation."""
    rows: dict[str, Comparison] = {}
    for _ in range(plan.processes):
        with _pair(plan.trees, side, 1, "checked_compile_time.py") as pair:
            for workload in plan.workloads:
                new = _asked(pair, 0, launch=workload.name)
                if not any(any(answer["compiled"]) for answer in new):
                    continue
                rounds = [_asked(pair, n, compile=workload.name) for n in range(plan.rounds)]
                _add(
                    rows.setdefault(workload.title, Comparison(workload.title)),
                    [(_compiling(before), _compiling(now)) for before, now in rounds],
                )
    return rows


def _compiling(answer: Mapping[str, Any]) -> float:
    return float(sum(launch["seconds"] for launch in answer["launches"]))


def _sheet(title: str, rows: Mapping[str, Comparison], limit: float) -> Sheet:
    ratios = [row.ratio for row in rows.values()]
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    over = [row.title for row in rows.values() if row.ratio > limit]
    notes = [f"geometric mean {mean:.3f}; over {limit}: {', '.join(over) or 'none'}"]
    heads = ("", "before", "now", "now / before", "of processes")
    return Sheet(title, heads, tuple(row.cells() for row in rows.values()), tuple(notes))


def main(
    revision: Annotated[str, typer.Argument(help="Git revision to compare with.")],
    only: Annotated[str, typer.Option(help="Workloads whose names contain one of these.")] = "",
    sides: Annotated[str, typer.Option(help=f"Sides among {', '.join(_OURS)}.")] = "ours,memcheck",
    compiles: Annotated[bool, typer.Option(help="Also compare compile times.")] = True,
    processes: Annotated[int, typer.Option(min=1, help="Pairs of processes for each row.")] = 3,
    rounds: Annotated[int, typer.Option(min=1, help="Samples of each pair.")] = 5,
    threads: Annotated[str, typer.Option(help="Numbers of threads; `all` CPUs.")] = "1,all",
    limit: Annotated[float, typer.Option(help="List rows with greater ratios.")] = 1.03,
    json_file: Annotated[Path | None, typer.Option("--json", help="File for all samples.")] = None,
) -> None:
    """Compare run, check and compile times with those of an earlier revision."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    compared, numbers, workloads = read_sides(sides), read_threads(threads), read_workloads(only)
    if not set(compared) <= set(_OURS):
        raise typer.BadParameter(f"{sides}: sides to compare are {', '.join(_OURS)}")
    tables: dict[str, dict[str, Comparison]] = {}
    with _tree(revision) as tree:
        plan = Plan(trees=(tree, NOW), workloads=workloads, processes=processes, rounds=rounds)
        for side in compared:
            for number in numbers:
                tables_of = _run_times(plan, side, number)
                tables |= {f"{name}, threads: {number}": rows for name, rows in tables_of.items()}
        for side in compared if compiles else ():
            tables[f"compilation, {side}, ms"] = _compile_times(plan, side)
    for title, rows in tables.items():
        _sheet(title, rows, limit).show(console)
    if json_file is not None:
        samples = {
            title: {name: (row.before, row.now) for name, row in rows.items()}
            for title, rows in tables.items()
        }
        json_file.write_text(json.dumps(samples, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
