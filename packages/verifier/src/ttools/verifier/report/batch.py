"""Writes the verifications of a folder's files as an HTML page, a Markdown table, or JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ttools.core.location import shown_path
from ttools.core.reports import junit, markdown_syntax
from ttools.core.reports.numbers import seconds
from ttools.core.reports.page_template import PageSummary, render_page
from ttools.core.reports.report import counted
from ttools.verifier.report.findings import conclusion_of, report_of
from ttools.verifier.report.text import failure_lines, reasons, statements
from ttools.verifier.result import Outcome, Verification

_PAGE = Path(__file__).parent / "page"
_COLUMNS = (
    ("candidate", False),
    ("verdict", False),
    ("class of failures, or reason", False),
    ("cases", True),
    ("time", True),
)
#: The order of the rows: verdicts that need attention come first.
_ORDER: tuple[Outcome, ...] = ("failed", "unknown", "passed")

#: Verifications by file name.
Verified = Mapping[str, Verification]


def write(form: str, folder: Path, verified: Verified) -> str:
    """Return the report of a folder.

    Args:
        form: Format, `html`, `markdown` or `junit`.
        folder: The folder that contains the files.
        verified: The verifications by the names of their files.
    """
    ordered = dict(sorted(verified.items(), key=lambda item: (_urgency(item[1]), item[0])))
    if form == "html":
        return _page(folder, ordered)
    if form == "markdown":
        return _markdown(ordered)
    return junit.write_all(
        report_of(verification, f"{folder / name}:candidate", title=name)
        for name, verification in ordered.items()
    )


def conclusion(verified: Verified) -> str:
    """Return the number of candidates by verdict, as in `3 candidates: 1 failed, 2 passed`."""
    counts = Counter(one.outcome for one in verified.values())
    parts = [f"{counts[outcome]:,} {outcome}" for outcome in _ORDER if counts[outcome]]
    return f"{counted(len(verified), 'candidate')}: {', '.join(parts)}"


def _urgency(found: Verification) -> int:
    return _ORDER.index(found.outcome)


def _cells(name: str, found: Verification) -> tuple[str, ...]:
    time = seconds(found.seconds) if found.seconds else ""
    return name, found.outcome, reasons(found), f"{found.covered.get('cases', 0):,}", time


def _markdown(verified: Verified) -> str:
    rows = [_cells(name, verification) for name, verification in verified.items()]
    table = markdown_syntax.table("", _COLUMNS, rows)
    return f"**{markdown_syntax.escaped(conclusion(verified))}**\n\n{table}"


def _page(folder: Path, verified: Verified) -> str:
    outcomes = {verification.outcome for verification in verified.values()}
    worst: Outcome = next((outcome for outcome in _ORDER if outcome in outcomes), "passed")
    return render_page(
        _PAGE,
        summary=PageSummary(
            conclusion=conclusion(verified),
            verdict=worst,
            about=f"`{shown_path(str(folder.absolute()))}`; each file has a candidate, its "
            "reference implementation and its inputs",
        ),
        columns=_COLUMNS,
        candidates=[
            _entry(name, verification, n)
            for n, (name, verification) in enumerate(verified.items(), 1)
        ],
    )


def _entry(name: str, found: Verification, number: int) -> dict[str, Any]:
    failures = [*found.failures, *found.warnings]
    return {
        "id": f"candidate-{number}",
        "name": name,
        "cells": _cells(name, found)[1:],
        "outcome": found.outcome,
        "conclusion": conclusion_of(found, "candidate"),
        "reason": found.reason,
        "failures": ["\n".join(failure_lines(one, verbose=False)) for one in failures],
        "statements": list(statements(found)),
    }
