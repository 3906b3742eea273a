"""Verifications as reports of findings: JUnit, SARIF, the page, and notebooks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml
from tests.chromium import Chromium

import ttools.verifier.api  # noqa: F401 (registers the formats of results)
from ttools.core.reports.registry import write_report
from ttools.verifier.report.findings import _MEANINGS, report_of
from ttools.verifier.result import CLASSES, Failure, Replay, Verdict, Verification

_SOURCE = """\
@triton.jit
def kernel(x_ptr):
    x = tl.load(x_ptr + 1)


def softmax(x):
    kernel[(1,)](x)
"""
_COVERED = {
    "cases": 40,
    "ordinary sizes": 2,
    "views": 38,
    "values": ["drawn"],
    "all sizes": {
        "sizes": {"M": [0, 12]},
        "runs": [{"choices": {}, "verdict": "not tried", "why": ["no <time>"], "assumed": []}],
    },
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "softmax.py"
    path.write_text(_SOURCE, "utf-8")
    return path


@pytest.fixture
def failing(file: Path) -> Verification:
    memory = Failure(
        failure="memory",
        detail="out-of-bounds load of 4 bytes from `x_ptr`",
        sizes={"M": 1},
        seed=26,
        views={"*": "every_other"},
        where=f"{file}:3:9",
        witness="program (0, 0, 0), lane [1] of [16]: c = 1",
        help="mask the load",
    )
    wrong = Failure(
        failure="wrong_values",
        detail="all 2 elements of result are wrong; first at [0]: <nan>, expected -0.329407",
        sizes={"M": 2},
        issue="a text\nfor an issue",
    )
    return Verification(
        verdict="fail",
        failures=(memory, wrong),
        warnings=(Failure(failure="race", detail="a barrier is missing", sizes={}),),
        covered=_COVERED,
        seconds=2.5,
    )


def _verified(verdict: Verdict, reason: str = "") -> Verification:
    replay = Replay(verified=verdict == "pass", cases=40)
    return Verification(
        verdict=verdict, failures=(), covered=_COVERED, reason=reason, replay=replay
    )


def test_each_class_has_a_meaning() -> None:
    assert set(_MEANINGS) == set(CLASSES)


def test_failures_are_errors_and_warnings_are_warnings(failing: Verification, file: Path) -> None:
    memory, wrong, race = report_of(failing, f"{file}:softmax").findings
    assert [f.severity for f in (memory, wrong, race)] == ["error", "error", "warning"]
    assert str(memory.location) == f"{file}:3:9"
    assert str(wrong.location) == f"{file}:6"  # where the candidate is defined
    assert "inputs: M=2, seed=0" in wrong.notes
    assert memory.help == (
        "mask the load; or, if callers pass only contiguous tensors, declare CONTIGUOUS = [...]"
    )


def _junit(found: Verification, file: Path) -> Any:
    document = write_report(report_of(found, f"{file}:softmax"), "junit")
    (suite,) = JUnitXml.fromstring(document.encode())
    return suite


def test_junit_has_a_case_for_the_verdict_and_one_for_each_failure(
    failing: Verification, file: Path
) -> None:
    suite = _junit(failing, file)
    assert (suite.name, suite.tests, suite.failures, suite.errors) == ("softmax", 4, 2, 0)
    verdict, memory, _, race = suite
    assert verdict.time == 2.5
    assert verdict.system_out == (
        "`softmax` fails: out-of-bounds load of 4 bytes from `x_ptr`; 2 errors, 1 warning; 40 "
        "cases tried"
    )
    assert memory.result[0].type == "memory"
    assert not race.result


@pytest.mark.parametrize(("verdict", "errors"), [("pass", 0), ("inconclusive", 1)])
def test_junit_has_an_error_without_a_verdict(verdict: Verdict, errors: int, file: Path) -> None:
    suite = _junit(_verified(verdict, "the time was over"), file)
    assert (suite.tests, suite.failures, suite.errors) == (1, 0, errors)
    (case,) = suite
    assert [result.message for result in case.result] == ["the time was over"] * errors


def test_rules_in_sarif_do_not_advise_comments(failing: Verification, file: Path) -> None:
    log = json.loads(write_report(report_of(failing, f"{file}:softmax"), "sarif"))
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["memory", "wrong_values", "race"]
    assert "memory outside of its tensors" in rules[0]["shortDescription"]["text"]
    assert "ttools: ignore" not in json.dumps(rules)


_SEEN = """(() => {
  const isOpen = (part) => !part.closest("details:not([open])") || part.tagName === "SUMMARY";
  return {
    order: [...document.querySelectorAll("h1, .reason, #cases, main, #statements")]
      .map((part) => part.id || part.className || part.tagName),
    heading: document.querySelector("h1").innerText,
    points: [...document.querySelectorAll(".reason")].map((part) => part.innerText),
    cases: [...document.querySelectorAll("#cases tbody tr")].map((row) => row.innerText),
    folded: [...document.querySelectorAll("#statements li")].map(isOpen),
  };
})()"""


def _seen(found: Verification, file: Path, chromium: Chromium) -> dict[str, Any]:
    page = file.with_suffix(".html")
    page.write_text(write_report(report_of(found, f"{file}:softmax"), "html"), "utf-8")
    return dict(chromium.evaluate(page, _SEEN, width=1280))


def test_the_page_begins_with_the_verdict_and_the_evidence(
    failing: Verification, file: Path, chromium: Chromium
) -> None:
    seen = _seen(failing, file, chromium)
    assert seen["heading"] == "softmax fails: out-of-bounds load of 4 bytes from x_ptr"
    assert seen["order"] == ["H1", "reason", "reason", "reason", "cases", "MAIN", "statements"]
    memory, wrong, _ = seen["points"]
    for text in (
        "softmax.py:3:9",
        "x = tl.load(x_ptr + 1)",
        "program (0, 0, 0), lane [1] of [16]: c = 1",
        "inputs: M=1, seed=26; each tensor is a view of every other element",
        "What to do: mask the load",
    ):
        assert text in memory
    assert "first at [0]: <nan>, expected -0.329407" in wrong
    assert seen["cases"] == ["at ordinary sizes\t2", "with views as arguments\t38"]
    assert seen["folded"] == [False] * 3


@pytest.mark.parametrize(
    ("verdict", "heading"),
    [
        ("pass", "softmax passes: its results agree with the reference in 40 cases"),
        ("inconclusive", "There is no verdict on softmax"),
    ],
)
def test_the_page_without_failures_shows_what_was_examined(
    verdict: Verdict, heading: str, file: Path, chromium: Chromium
) -> None:
    seen = _seen(_verified(verdict, "only 40 of 95 cases ran"), file, chromium)
    assert seen["heading"] == heading
    assert seen["points"] == ["only 40 of 95 cases ran"]
    assert all(seen["folded"])


def test_a_notebook_shows_the_verdict_first(failing: Verification) -> None:
    shown = failing._repr_mimebundle_()
    text = shown["text/plain"]
    assert text.startswith("the candidate: failed\n\n  memory: out-of-bounds load of 4 bytes")
    for part in ("inputs: M=2, seed=0", "tried 40 cases", "at ordinary sizes", "not tried"):
        assert part in text
    assert "&lt;nan&gt;" in shown["text/html"]
    assert shown["text/html"] == failing._repr_html_()
    assert "<summary>what was examined, and what was not</summary>" in shown["text/html"]
    (first, *_) = (
        _verified("inconclusive", "the time was over")
        ._repr_mimebundle_()["text/plain"]
        .splitlines()
    )
    assert first == "the candidate: unknown (the time was over)"
