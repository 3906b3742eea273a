"""Findings of the sanitizer are mapped to classes of failures."""

from __future__ import annotations

from typing import Any

import pytest

from ttools.verifier.oracle.comparison import Mismatch
from ttools.verifier.run.finding_classes import explained, of_findings, warnings_of


def finding(kind: str, severity: str) -> dict[str, Any]:
    return {"kind": kind, "severity": severity, "message": kind, "where": ""}


@pytest.mark.parametrize(
    ("kind", "severity", "failure"),
    [
        ("oob_load", "error", "memory"),
        ("oob_load", "warning", None),
        ("race", "error", "race"),
        ("overlapping_store", "note", None),
        ("intra_program_race", "warning", None),
        ("intra_program_race", "note", None),
        ("not_restored", "warning", "stale_state"),
        ("timeout", "error", "exception"),
        ("not_checked", "error", None),
        ("uninit_read", "warning", None),
    ],
)
def test_classes_of_findings(kind: str, severity: str, failure: str | None) -> None:
    classes = [item.failure for item in of_findings([finding(kind, severity)])]
    assert classes == ([] if failure is None else [failure])


def test_warnings_are_failures_only_if_requested() -> None:
    missing_barrier = finding("intra_program_race", "warning")
    (warning,) = warnings_of([missing_barrier, finding("race", "error"), finding("race", "note")])
    assert of_findings([missing_barrier], "warning") == [warning]
    assert (warning.failure, warning.evidence) == ("race", {"checks": ["intra_program_race"]})


def test_a_missing_barrier_explains_wrong_values() -> None:
    findings = [finding("intra_program_race", "warning"), finding("intra_program_race", "note")]
    (race,) = explained([Mismatch("wrong_values", "differs")], findings)
    assert race.failure == "race"
    assert explained([Mismatch("layout", "differs")], findings) == []
