"""Maps findings of the sanitizer to classes of failures."""

from __future__ import annotations

from typing import Any

from ttools.core.findings.findings import Severity
from ttools.core.reports.report import at_least
from ttools.verifier.oracle.comparison import Mismatch

MEMORY = frozenset(
    [
        "oob_load",
        "oob_store",
        "oob_atomic",
        "oob_gather",
        "view_oob",
        "misaligned",
        "bad_descriptor",
        "use_after_free",
        "bad_hint",
        "int_overflow",
    ]
)
RACES = frozenset(["race", "overlapping_store", "deadlock", "divergent_barrier"])
#: This finding is only a warning of the sanitizer, because the compiler may assign both accesses to
#: one thread. A correct kernel does not depend on that.
_MISSING_BARRIER = "intra_program_race"


def of_findings(findings: list[dict[str, Any]], fail_on: Severity = "error") -> list[Mismatch]:
    """Return the failures among findings that are failures whatever the results are.

    Args:
        findings: Findings of a call.
        fail_on: Lowest severity of findings that are failures.
    """
    problems = []
    for finding in findings:
        if finding["kind"] == "not_restored":
            # For the sanitizer this is only a warning, because a script may restore the argument
            # itself. On a GPU, the result of the first call would contain the effects of all timed
            # launches.
            problems.append(_mismatch("stale_state", finding))
        elif finding["kind"] == "timeout" and finding["severity"] == "error":
            problems.append(_mismatch("exception", finding))
        elif at_least(finding["severity"], fail_on):
            problems += _checked(finding)
    return problems


def warnings_of(findings: list[dict[str, Any]]) -> list[Mismatch]:
    """Return the warnings among findings, in the form of failures."""
    return [
        problem
        for finding in findings
        if finding["severity"] == "warning"
        for problem in _checked(finding)
    ]


def _checked(finding: dict[str, Any]) -> list[Mismatch]:
    """Return a finding of memcheck or racecheck as a failure; nothing for other kinds."""
    for failure, kinds in (
        ("memory", MEMORY),
        ("race", RACES),
        ("race", frozenset([_MISSING_BARRIER])),
    ):
        if finding["kind"] in kinds:
            return [_mismatch(failure, finding, checks=sorted(kinds))]
    return []


def _mismatch(failure: str, finding: dict[str, Any], **evidence: Any) -> Mismatch:
    return Mismatch(
        failure,
        finding["message"],
        evidence,
        where=finding["where"],
        witness=finding.get("witness", ""),
        help=finding.get("help", ""),
    )


def explained(wrong: list[Mismatch], findings: list[dict[str, Any]]) -> list[Mismatch]:
    """Return findings that are failures only because values are wrong.

    These are uninitialised memory and missing barriers, which in this case explain the wrong
    values.
    """
    if not any(mismatch.failure in ("wrong_values", "unwritten") for mismatch in wrong):
        return []
    problems = []
    for finding in findings:
        if finding["kind"] in ("uninit_read", "unwritten_output"):
            problems.append(_mismatch("unwritten", finding))
        elif finding["kind"] == _MISSING_BARRIER and finding["severity"] == "warning":
            problems += _checked(finding)
    return problems


def of_doubtful(findings: list[dict[str, Any]]) -> list[Mismatch]:
    """Return findings of races and uninitialised memory of any severity.

    If a kernel with such findings has wrong results, these do not indicate a defect of the
    compiler.
    """
    classes = {"uninit_read": "unwritten", "unwritten_output": "unwritten"}
    classes |= dict.fromkeys(RACES | {_MISSING_BARRIER}, "race")
    return [
        Mismatch(classes[finding["kind"]], finding["message"])
        for finding in findings
        if finding["kind"] in classes
    ]
