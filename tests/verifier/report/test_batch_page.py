"""The verifications of a folder as one page, a table in Markdown, and JUnit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml
from tests.chromium import Chromium

from ttools.verifier.report.batch import write
from ttools.verifier.result import OUTCOMES, Failure, Verification

_VERIFIED = {
    "right.py": Verification(verdict="pass", failures=(), covered={"cases": 40}, seconds=2.5),
    "lost.py": Verification(
        verdict="inconclusive", failures=(), covered={"cases": 0}, notes=("the file is <damaged>",)
    ),
    "wrong.py": Verification(
        verdict="fail",
        failures=(
            Failure(failure="memory", detail="out-of-bounds load from `x_ptr`", sizes={"M": 1}),
            Failure(failure="wrong_values", detail="all elements are wrong", sizes={"M": 2}),
        ),
        warnings=(Failure(failure="race", detail="lanes store the same element", sizes={"M": 2}),),
        covered={"cases": 31, "views": 30},
        seconds=1.25,
    ),
}
_ROWS = """[...document.querySelectorAll("tbody tr")].map(
  (row) => [...row.cells].map((cell) => cell.innerText))"""
_OPENED = """(() => {
  location.hash = document.querySelector("tbody a").hash;
  unfold();
  return [...document.querySelectorAll("details")].map((part) => part.open);
})()"""


def test_the_page_has_a_row_and_folded_details_for_each_candidate(
    tmp_path: Path, chromium: Chromium
) -> None:
    page = tmp_path / "page.html"
    page.write_text(write("html", tmp_path, _VERIFIED), "utf-8")
    rows: Any = chromium.evaluate(page, _ROWS, width=1280)
    assert rows == [
        ["wrong.py", "failed", "memory, wrong_values", "31", "1.25 s"],
        ["lost.py", "unknown", "the file is <damaged>", "0", ""],
        ["right.py", "passed", "", "40", "2.5 s"],
    ]
    text: Any = chromium.evaluate(page, "document.body.textContent", width=390)
    assert "3 candidates: 1 failed, 1 unknown, 1 passed" in text
    for part in ("out-of-bounds load", "all elements are wrong", "lanes store the same element"):
        assert part in text
    assert chromium.evaluate(page, _OPENED, width=1280) == [True, False, False]


def test_markdown_has_a_table() -> None:
    lines = write("markdown", Path("folder"), _VERIFIED).splitlines()
    assert lines[0] == "**3 candidates: 1 failed, 1 unknown, 1 passed**"
    assert lines[4] == "| wrong.py | failed | memory, wrong\\_values | 31 | 1.25 s |"
    assert len(lines) == 7


def test_junit_has_a_suite_for_each_file() -> None:
    document = JUnitXml.fromstring(write("junit", Path("folder"), _VERIFIED).encode())
    assert [suite.name for suite in document] == ["wrong.py", "lost.py", "right.py"]
    assert (document.failures, document.errors) == (2, 1)


@pytest.mark.parametrize("name", _VERIFIED)
def test_json_has_the_verdict_in_the_words_of_all_commands(name: str) -> None:
    found = _VERIFIED[name]
    data = found.as_dict()
    assert data["outcome"] == OUTCOMES[found.verdict] in ("passed", "failed", "unknown")
    assert data["verdict"] == found.verdict
