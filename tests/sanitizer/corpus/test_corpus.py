"""The sanitizer finds every defect of the corpus at its line, and nothing in cases without one."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import catalogue
import pytest
from catalogue import BUGGY, CLEAN, NOTED, Buggy

from ttools.core.findings.findings import Finding
from ttools.sanitizer import sanitize

for _file in sorted(Path(__file__).parent.glob("*/*.py")):  # importing a file registers its cases
    importlib.import_module(f"tests.sanitizer.corpus.{_file.parent.name}.{_file.stem}")


def grave(findings: list[Finding]) -> list[str]:
    """Return the findings that a user would have to fix, without notes."""
    return [
        f"{f.severity}: {f.kind} at {f.location}: {f.message}"
        for f in findings
        if f.severity != "note"
    ]


def is_at_fault(finding: Finding) -> bool:
    """Return whether a finding of this kind is expected at its line."""
    place = finding.location
    return place is not None and catalogue.marked_lines(place.file).get(place.line) == finding.kind


@pytest.mark.parametrize("case", BUGGY, ids=lambda case: case.name)
def test_a_defect_is_found(case: Buggy, request: pytest.FixtureRequest) -> None:
    if case.missed is not None:
        request.applymarker(pytest.mark.xfail(strict=True, reason=case.missed))
    matching: list[Finding] = []
    # A deadlock hides a race in about one of 800 runs, and the order of threads decides which of
    # several waiting programs is named first.
    for _ in range(3):
        with sanitize(checks=case.checks, all_configs=case.all_configs) as report:
            case.run(False)
        matching = [f for f in report.findings if f.kind == case.kind and is_at_fault(f)]
        if matching or case.kind not in ("race", "deadlock"):
            break
    assert matching, report.to("text")
    names = {f.argument.name if f.argument else None for f in matching}
    assert case.argument in names, report.to("text")
    others = {f.kind for f in report.findings} - {case.kind}
    assert others <= case.also, report.to("text")


def repaired() -> Iterator[Any]:
    """Yield all cases; the default test run has the first three of each file."""
    for _, cases in itertools.groupby(BUGGY, key=lambda case: case.run.__module__):
        for number, case in enumerate(cases):
            yield pytest.param(case, id=case.name, marks=() if number < 3 else pytest.mark.slow)


@pytest.mark.parametrize("case", repaired())
def test_the_repaired_form_is_clean(case: Buggy) -> None:
    with sanitize(checks=case.checks, all_configs=case.all_configs) as report:
        case.run(True)
    assert report.launches
    assert grave(report.findings) == []


@pytest.mark.parametrize("run", CLEAN, ids=lambda run: run.__name__)
def test_correct_cases_have_no_finding(run: Callable[[], object]) -> None:
    with sanitize() as report:
        run()
    assert report.launches
    assert grave(report.findings) == []
    notes = {f.kind for f in report.findings}
    assert notes == ({"overlapping_store"} if run.__name__ in NOTED else set())
