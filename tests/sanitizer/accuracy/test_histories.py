"""Fixes of accuracy in public projects: the line at fault is reported, the fixed kernel is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sanitizer.accuracy.histories import HISTORIES

from ttools.sanitizer import sanitize

FILE = Path(__file__).parent / "histories.py"
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "accuracy_fixes.md"
#: Histories that run in every test run; the others take about half a minute.
FAST = ("causal_conv", "reverse_cumsum", "softcap", "tutorial_variance")
CASES = [
    pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in sorted(HISTORIES)
]


def lines_of(name: str, fixed: bool) -> list[tuple[str, bool]]:
    """Return the kind of each finding, and whether its line is the one at fault."""
    with sanitize(checks="accuracy") as report:
        HISTORIES[name].run(fixed)
    source = FILE.read_text("utf-8").splitlines()
    found = []
    for finding in report.findings:
        if finding.severity != "note":
            assert finding.location is not None
            _, _, comment = source[finding.location.line - 1].partition("# ")
            found.append((finding.kind, name in comment.split(", ")))
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_fix_of_a_public_project(name: str) -> None:
    before = lines_of(name, False)
    assert before
    assert before[0][1], before
    assert lines_of(name, True) == []


def test_the_page_lists_all_histories() -> None:
    rows = [
        f"| [{history.source}](https://github.com/{path}) | {history.defect} |"
        for history in HISTORIES.values()
        for path in [history.source.replace("#", "/issues/")]
    ]
    assert len(rows) >= 30
    text = PAGE.read_text("utf-8")
    assert [line for line in text.splitlines() if line.startswith("| [")] == rows
