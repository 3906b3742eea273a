"""Converts a verification to a report of findings, for HTML, JUnit, SARIF and GitHub's format."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

from ttools.core.findings.findings import Finding, Severity
from ttools.core.location import SourceLocation, location_of_line, source_lines
from ttools.core.reports.cases import CasesVerdict
from ttools.core.reports.report import Report, Rule, counted
from ttools.core.syntax_trees import functions_in
from ttools.verifier.report.text import advice, cases_by_kind, circumstances, statements
from ttools.verifier.result import Failure, Verification

_PAGE = "design/verification.md#classes"
#: Descriptions of the classes of failures.
_MEANINGS = MappingProxyType(
    {
        "not_computed_by_kernel": "A kernel did not compute the result.",
        "stale_state": "The result depends on earlier calls.",
        "memory": "A kernel accesses memory outside of its tensors.",
        "race": "Programs access the same memory in an order that is not defined.",
        "unwritten": "Elements of a result are never written.",
        "nondeterministic": "Equal calls have different results.",
        "input_modified": "An argument that must not change was changed.",
        "layout": "The shape, the type, the device or the memory of a result is wrong.",
        "exception": "The candidate raises an exception or does not end.",
        "wrong_values": "Values of a result differ from those of the reference.",
    }
)


def report_of(found: Verification, candidate: str, title: str = "") -> Report:
    """Return the report of one verification.

    Args:
        found: Result of the verification.
        candidate: The candidate as `FILE.py:NAME`.
        title: Name of the candidate in the report; by default that of the function.
    """
    file, _, function = candidate.rpartition(":")
    definition = _definition(file, function)
    name = title or function
    failures: list[tuple[Failure, Severity]] = [(failure, "error") for failure in found.failures]
    failures += [(warning, "warning") for warning in found.warnings]
    return Report(
        findings=tuple(
            _finding(failure, severity, name, definition) for failure, severity in failures
        ),
        target=candidate,
        rules={
            kind: Rule(meaning, page=_PAGE, can_be_suppressed=False)
            for kind, meaning in _MEANINGS.items()
        },
        cases=CasesVerdict(
            function=name,
            verdict=found.outcome,
            conclusion=conclusion_of(found, name),
            reason=found.reason,
            tried=found.covered.get("cases", 0),
            kinds=tuple(cases_by_kind(found)),
            statements=tuple(statements(found)),
            seconds=found.seconds,
        ),
    )


def conclusion_of(found: Verification, name: str) -> str:
    """Return the verdict as a sentence; it names the failure that probably causes the others.

    Args:
        found: Result of the verification.
        name: Name of the candidate.
    """
    if found.verdict == "fail":
        return f"`{name}` fails: {found.failures[0].detail.partition(';')[0]}"
    if found.verdict == "pass":
        cases = counted(found.covered.get("cases", 0), "case")
        return f"`{name}` passes: its results agree with the reference in {cases}"
    return f"There is no verdict on `{name}`"


def _finding(
    failure: Failure, severity: Severity, name: str, definition: SourceLocation | None
) -> Finding:
    notes = [
        failure.witness,
        failure.rounding,
        f"inputs: {circumstances(failure)}",
        failure.condition,
    ]
    if failure.consequence_of:
        notes.append(f"probably a consequence of the failure `{failure.consequence_of}`")
    notes += [f"test: {failure.test}" if failure.test else ""]
    notes += [f"issue:\n\n{failure.issue}" if failure.issue else ""]
    return Finding(
        kind=failure.failure,
        check="verify",
        severity=severity,
        message=failure.detail,
        kernel=name,
        location=location_of_line(failure.where) or definition,
        notes=tuple(filter(None, notes)),
        help="; or, ".join(advice(failure)) or None,
    )


def _definition(file: str, name: str) -> SourceLocation | None:
    """Return the line where the candidate is defined."""
    source = "".join(source_lines(str(Path(file).absolute()))) if file else ""
    lines = [function.lineno for function in functions_in(source) if function.name == name]
    return SourceLocation(str(Path(file).absolute()), lines[-1], 0) if lines else None
