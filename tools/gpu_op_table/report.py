"""Reports of the outcomes: on the terminal, as JSON, as Markdown."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from tools.gpu_op_table.execution import Outcome
from tools.harness import markdown

_STYLES = {"known": "yellow", "outside": "red", "error": "red"}


@dataclass(frozen=True, kw_only=True)
class Report:
    """The results of a whole run.

    Attributes:
        settings: Description of the command and the machine, by title.
        outcomes: Outcomes in the order of the table.
        seconds: Wall time in seconds.
    """

    settings: Mapping[str, str]
    outcomes: Sequence[Outcome]
    seconds: float

    @property
    def failed(self) -> bool:
        """True if a row exceeds its bound or has no result."""
        return any(outcome.status in ("outside", "error") for outcome in self.outcomes)

    def summary(self) -> list[str]:
        """Return a summary of the run in sentences."""
        counts = Counter(outcome.status for outcome in self.outcomes)
        elements = sum(o.distance.elements for o in self.outcomes if o.distance)
        return [
            f"{len(self.outcomes):,} rows, {elements:,} results, in {self.seconds:.0f} s.",
            f"Equal in every bit: {counts['equal']:,} rows.",
            f"Different within the row's bound: {counts['within']:,} rows.",
            f"Beyond the bound for a known reason: {counts['known']:,} rows.",
            f"Beyond the bound for an unknown reason: {counts['outside']:,} rows.",
            f"Without a result: {counts['error']:,} rows.",
        ]


def _number(value: float) -> str:
    if value == 0:
        return "0"
    return "inf" if math.isinf(value) else f"{value:.3g}"


def _details(outcome: Outcome) -> str:
    return "; ".join(filter(None, (outcome.row.deviation, outcome.error or outcome.example)))


def print_report(report: Report, console: Console) -> None:
    """Print the table, then the worst element of each row that exceeds its bound."""
    table = Table()
    for name in ("family", "operation", "types", "bound"):
        table.add_column(name, overflow="fold")
    for name in ("max ulp", "max abs", "different", "of"):
        table.add_column(name, justify="right")
    table.add_column("")
    for outcome in report.outcomes:
        row, distance = outcome.row, outcome.distance
        cells = ["", "", "", ""]
        if distance is not None:
            cells = [_number(distance.ulps), _number(distance.absolute)]
            cells += [f"{distance.different:,}", f"{distance.elements:,}"]
        style = _STYLES.get(outcome.status)
        words = (row.family, row.name, row.types, str(row.bound), *cells, outcome.status)
        table.add_row(*words, style=style)
    console.print(table)
    for outcome in report.outcomes:
        if outcome.status in _STYLES:
            text = f"{outcome.status}: {outcome.row.key}: {_details(outcome)}"
            console.print(text, markup=False, soft_wrap=True)
    for line in report.summary():
        console.print(line, markup=False, soft_wrap=True)


def as_json(report: Report) -> dict[str, Any]:
    """Return the whole run as plain data."""
    return {
        "settings": dict(report.settings),
        "seconds": round(report.seconds, 1),
        "summary": report.summary(),
        "rows": [_row_data(outcome) for outcome in report.outcomes],
    }


def _row_data(outcome: Outcome) -> dict[str, Any]:
    row, distance = outcome.row, outcome.distance
    data: dict[str, Any] = {
        "family": row.family,
        "operation": row.name,
        "types": row.types,
        "bound": dataclasses.asdict(row.bound),
        "status": outcome.status,
    }
    if distance is not None:
        numbers = dataclasses.asdict(distance)
        del numbers["worst"]
        # JSON has no infinity.
        numbers["ulps"] = None if math.isinf(distance.ulps) else distance.ulps
        data |= numbers
    return data | {
        name: text
        for name, text in (
            ("deviation", row.deviation),
            ("example", outcome.example),
            ("error", outcome.error),
        )
        if text
    }


def as_markdown(report: Report) -> str:
    """Return the tables for the documentation: exact operations by type, the others in full."""
    parts = [
        markdown(("", ""), report.settings.items()),
        "\n".join(f"- {line}" for line in report.summary()),
        "### Rows that require equal bits",
        markdown(
            ("family", "operation", "types", "results", "different"),
            _exact_rows([o for o in report.outcomes if o.row.bound.exact]),
            "results,different",
        ),
        "### Rows with a bound",
        markdown(
            ("family", "operation", "types", "bound", "max ulp", "max abs", "different", "why"),
            [_bound_row(o) for o in report.outcomes if not o.row.bound.exact],
            "max ulp,max abs,different",
        ),
    ]
    failing = [o for o in report.outcomes if o.status in _STYLES]
    if failing:
        parts.append("### Rows beyond their bound")
        parts.append(markdown(("row", "details"), [(o.row.key, _details(o)) for o in failing]))
    return "\n\n".join(parts) + "\n"


def _bound_row(outcome: Outcome) -> tuple[str, ...]:
    row, distance = outcome.row, outcome.distance
    cells = ("", "", "no result")
    if distance is not None:
        share = f"{distance.different / distance.elements:.1%}" if distance.different else "0"
        cells = (_number(distance.ulps), _number(distance.absolute), share)
    return (row.family, f"`{row.name}`", row.types, str(row.bound), *cells, row.bound.why)


def _exact_rows(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """Return one row for each operation, with the types it was run on."""
    by_name: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        by_name.setdefault((outcome.row.family, outcome.row.name), []).append(outcome)
    rows: list[tuple[str, ...]] = []
    for (family, name), group in by_name.items():
        types = ", ".join(dict.fromkeys(o.row.types for o in group))
        elements = sum(o.distance.elements for o in group if o.distance)
        different = sum(o.distance.different for o in group if o.distance)
        rows.append((family, f"`{name}`", types, f"{elements:,}", f"{different:,}"))
    return rows
