"""Reports of the outcomes by function and by reason: on the terminal, as JSON, as Markdown."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from tools.conformance.outcomes import STATUSES, Outcome
from tools.harness import markdown


@dataclass(frozen=True)
class FunctionResult:
    """The outcomes of one test function.

    Attributes:
        function: Name of the function.
        cases: Number of its cases, including those that did not run.
        outcomes: Outcomes of the cases that ran.
    """

    function: str
    cases: int
    outcomes: Sequence[Outcome]

    def count(self, status: str) -> int:
        return sum(outcome.status == status for outcome in self.outcomes)

    @property
    def excluded(self) -> bool:
        """True if all cases that ran are excluded."""
        return self.count("excluded") == len(self.outcomes)

    @property
    def passes(self) -> bool:
        """True if every case passes, apart from excluded ones, and not all are excluded."""
        return not self.excluded and not (self.count("wrong") or self.count("unsupported"))


@dataclass(frozen=True, kw_only=True)
class Report:
    """The results of a whole run.

    Attributes:
        settings: Description of the command and the machine, by title.
        functions: Results by function, in the order of the checkout.
        not_imported: Functions in files that cannot be imported, with the reason.
        seconds: Wall time in seconds.
        cpu_seconds: CPU time in seconds, which other load on the machine hardly affects.
    """

    settings: Mapping[str, str]
    functions: Sequence[FunctionResult]
    not_imported: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def outcomes(self) -> list[Outcome]:
        return [outcome for function in self.functions for outcome in function.outcomes]

    def summary(self) -> list[str]:
        """Return a summary of the run in sentences."""
        counts = Counter(outcome.status for outcome in self.outcomes)
        evaluated = len(self.outcomes) - counts["excluded"]
        functions = [function for function in self.functions if not function.excluded]
        passing = sum(function.passes for function in functions)
        total = sum(function.cases for function in self.functions)
        others = ", ".join(f"{status} {counts[status]:,}" for status in STATUSES[1:])
        minutes = f"{self.seconds / 60:.1f} minutes, {self.cpu_seconds / 60:.1f} of CPU time"
        lines = [
            f"Functions whose evaluated cases all pass: {_share(passing, len(functions))}.",
            f"Functions without an evaluated case: {len(self.functions) - len(functions)}.",
            f"Evaluated cases that pass: {_share(counts['pass'], evaluated)}; {others}.",
            f"Run: {len(self.outcomes):,} of {total:,} cases in {minutes}.",
        ]
        if self.not_imported:
            lines.append(f"Functions in files that cannot be imported: {len(self.not_imported)}.")
        return lines

    def reasons(self, status: str) -> list[tuple[str, int, str]]:
        """Return the reasons of a status with their cases and functions, most frequent first."""
        cases: Counter[str] = Counter()
        functions: dict[str, dict[str, None]] = {}
        for function in self.functions:
            for outcome in function.outcomes:
                if outcome.status == status:
                    cases[outcome.reason] += 1
                    name = function.function.partition("::")[2]
                    functions.setdefault(outcome.reason, {})[name] = None
        return [(reason, n, ", ".join(functions[reason])) for reason, n in cases.most_common()]


def _share(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} ({part / whole:.1%})" if whole else "0 of 0"


def print_report(report: Report, console: Console) -> None:
    """Print the tables; wrong cases come last, one by one."""
    console.print(_function_table(report))
    for status in ("excluded", "unsupported"):
        rows = report.reasons(status)
        if rows:
            table = Table(title=status, title_justify="left")
            table.add_column("reason", overflow="fold")
            table.add_column("cases", justify="right")
            table.add_column("functions", overflow="fold")
            for reason, count, functions in rows:
                table.add_row(reason, str(count), functions)
            console.print(table)
    for function, reason in report.not_imported.items():
        console.print(f"not imported: {function}: {reason}", markup=False)
    for outcome in report.outcomes:
        if outcome.status == "wrong":
            text = f"wrong: {outcome.node}: {outcome.reason}: {outcome.detail}"
            console.print(text, markup=False, soft_wrap=True)
    for line in report.summary():
        console.print(line, markup=False, soft_wrap=True)


def _function_table(report: Report) -> Table:
    table = Table()
    table.add_column("function", overflow="fold")
    for name in ("cases", "run", *STATUSES):
        table.add_column(name, justify="right")
    for function in report.functions:
        counts = [function.count(status) for status in STATUSES]
        style = "red" if function.count("wrong") else None
        cells = [str(count) if count else "" for count in counts]
        row = (function.function, str(function.cases), str(len(function.outcomes)), *cells)
        table.add_row(*row, style=style)
    return table


def as_json(report: Report) -> dict[str, Any]:
    """Return the whole run as plain data, including every case."""
    return {
        "settings": dict(report.settings),
        "seconds": round(report.seconds, 1),
        "cpu_seconds": round(report.cpu_seconds, 1),
        "summary": report.summary(),
        "not_imported": dict(report.not_imported),
        "functions": [
            {
                "function": function.function,
                "cases": function.cases,
                "run": len(function.outcomes),
                **{status: function.count(status) for status in STATUSES},
                "outcomes": [dataclasses.asdict(outcome) for outcome in function.outcomes],
            }
            for function in report.functions
        ],
    }


def as_markdown(report: Report) -> str:
    """Return the tables for a page of the documentation."""
    settings = markdown(("", ""), report.settings.items())
    parts = [settings, "\n".join(f"- {line}" for line in report.summary())]
    rows = [
        (
            *(f"`{function.function}`", str(function.cases), str(len(function.outcomes))),
            *(str(function.count(status) or "") for status in STATUSES),
        )
        for function in report.functions
    ]
    heads = ("function", "cases", "run", *STATUSES)
    parts.append(markdown(heads, rows, ",".join(heads[1:])))
    for status in STATUSES[1:]:
        reasons = [(reason, str(n), names) for reason, n, names in report.reasons(status)]
        if reasons:
            parts.append(f"### {status.capitalize()}, by reason")
            parts.append(markdown(("reason", "cases", "functions"), reasons, "cases"))
    if report.not_imported:
        parts.append("### In files that cannot be imported")
        files = [(f"`{name}`", why) for name, why in report.not_imported.items()]
        parts.append(markdown(("function", "reason"), files))
    return "\n\n".join(parts) + "\n"
