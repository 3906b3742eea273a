"""Compares this tree with an earlier revision: run time, what memcheck adds, and compile time.

    .venv/bin/python benchmarks/revisions.py <revision>

A machine's speed drifts by more than what is looked for, so both revisions answer in turns, each by
its own programs in processes that live at the same time, and each round is one quotient. Where
memory happens to lie differs from process to process and stays for its life, so every row is
measured by several pairs of processes, and the interval tells how far these differ.
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

#: The tree that this file is in.
NOW = HERE.parent
_OURS = ("ours", *CHECKED)

#: A pair's answers to one request: of the earlier revision, and of this tree.
Pair = tuple[Any, Any]


@dataclass
class Comparison:
    """One row of one table.

    Attributes:
        shown: how a sample is written.
        before: of the earlier revision, a list of samples for each pair of processes.
        now: the same of this tree, in the same rounds.
    """

    title: str
    shown: Callable[[float], str] = milliseconds
    before: list[list[float]] = field(default_factory=list)
    now: list[list[float]] = field(default_factory=list)

    @property
    def by_process(self) -> list[float]:
        """How many times longer it takes now, of each pair of processes."""
        return [
            statistics.median(b / a for a, b in zip(one, two, strict=True))
            for one, two in zip(self.before, self.now, strict=True)
        ]

    @property
    def ratio(self) -> float:
        """How many times longer it takes now."""
        return statistics.median(self.by_process)

    def cells(self) -> tuple[str, ...]:
        """The row as text: the least samples, the ratio, and those of all pairs of processes."""
        ratios = self.by_process
        least = [self.shown(min(chain(*times))) for times in (self.before, self.now)]
        return self.title, *least, f"{self.ratio:.3f}", f"{min(ratios):.3f}-{max(ratios):.3f}"


@contextmanager
def _tree(revision: str) -> Iterator[Path]:
    """A checkout of a revision, for a while."""
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
    """What makes a process import a tree's packages."""
    sources = [str(path) for path in sorted(tree.glob("packages/*/src"))]
    # Torch would load what the environment has registered, of whichever tree.
    return {
        "PYTHONPATH": os.pathsep.join([*sources, str(tree)]),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }


@contextmanager
def _pair(trees: Sequence[Path], side: str, threads: int, program: str) -> Iterator[list[Any]]:
    """A process of each tree, with caches of their own."""
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
    """Both answers; who is asked first changes from round to round."""
    order = (1, 0) if number % 2 else (0, 1)
    answers = {n: pair[n].ask(**request) for n in order}
    return answers[0], answers[1]


def _add(row: Comparison, rounds: Sequence[tuple[float, float]]) -> None:
    """Adds the samples of a pair of processes to a row."""
    row.before.append([before for before, _ in rounds])
    row.now.append([now for _, now in rounds])


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to measure, and how often.

    Attributes:
        trees: of the earlier revision, and this one.
        workloads: of `workloads.rows`.
        processes: pairs of them for each row.
        rounds: of each pair.
    """

    trees: Sequence[Path]
    workloads: Sequence[Any]
    processes: int
    rounds: int


def _run_times(plan: Plan, side: str, threads: int) -> dict[str, dict[str, Comparison]]:
    """Rows by what is compared: times, and of a side that checks, what checks add besides."""
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
    """What cold compilation takes."""
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
    revision: Annotated[str, typer.Argument(help="What to compare with, as git names it.")],
    only: Annotated[str, typer.Option(help="Workloads whose names contain one of these.")] = "",
    sides: Annotated[str, typer.Option(help=f"Which of {', '.join(_OURS)}.")] = "ours,memcheck",
    compiles: Annotated[bool, typer.Option(help="Whether compilation is compared, too.")] = True,
    processes: Annotated[int, typer.Option(min=1, help="Pairs of processes for each row.")] = 3,
    rounds: Annotated[int, typer.Option(min=1, help="Samples of each pair.")] = 5,
    threads: Annotated[str, typer.Option(help="Numbers of threads; `all` CPUs.")] = "1,all",
    limit: Annotated[float, typer.Option(help="Rows above it are named below a table.")] = 1.03,
    json_file: Annotated[Path | None, typer.Option("--json", help="Where samples go.")] = None,
) -> None:
    """Compare run, check and compile times with those of an earlier revision."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    compared, numbers, workloads = read_sides(sides), read_threads(threads), read_workloads(only)
    if not set(compared) <= set(_OURS):
        raise typer.BadParameter(f"{sides}: revisions differ in {', '.join(_OURS)}")
    tables: dict[str, dict[str, Comparison]] = {}
    with _tree(revision) as tree:
        plan = Plan(trees=(tree, NOW), workloads=workloads, processes=processes, rounds=rounds)
        for side in compared:
            for number in numbers:
                found = _run_times(plan, side, number)
                tables |= {f"{name}, threads: {number}": rows for name, rows in found.items()}
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
