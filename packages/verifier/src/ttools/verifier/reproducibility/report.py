"""Converts answers about reproducibility to a report of findings, for HTML, SARIF and others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from ttools.core.findings.findings import Finding
from ttools.core.location import location_of_line
from ttools.core.reports.cases import CasesVerdict, Statement
from ttools.core.reports.report import Report, Rule, counted
from ttools.verifier.reproducibility.result import OUTCOMES, Answer, Question, Reproducibility

_PAGE = "reference/cli.md#reproduce"
_MEANINGS = MappingProxyType(
    {
        "differs": "A result is evaluated in different orders, so that its bits may differ.",
        "unknown": "The order in which a result is evaluated is not modelled.",
    }
)
_COMPARED: Mapping[Question, str] = MappingProxyType(
    {
        "runs": "launches with other orders of programs",
        "configs": "pairs of configurations",
        "batch": "smaller batches",
        "devices": "launches on another GPU",
    }
)
_HELP: Mapping[Question, str] = MappingProxyType(
    {
        "runs": "store each part to an element of its own and add the parts in a second kernel, or "
        "let a semaphore fix the order",
        "configs": "`ttools tune --reproducible first` lets only configurations compete that give "
        "the same bits",
        "batch": "choose blocks, the number of warps and the number of parts independently of the "
        "batch, and mask what belongs to other rows",
        "devices": "use operations that are rounded once, or accept a tolerance",
    }
)


def report_of(result: Reproducibility) -> Report:
    """Return the report of all answers about a function."""
    counts = Counter(answer.question for answer in result.answers)
    return Report(
        findings=tuple(_finding(answer, result.function) for answer in result.failures),
        target=result.function,
        rules={
            kind: Rule(meaning, page=_PAGE, can_be_suppressed=False)
            for kind, meaning in _MEANINGS.items()
        },
        cases=CasesVerdict(
            function=result.function,
            verdict=OUTCOMES[result.verdict],
            conclusion=conclusion_of(result),
            tried=len(result.answers),
            kinds=tuple((_COMPARED[question], count) for question, count in counts.items()),
            statements=(
                *(
                    Statement(f"{answer.question}: proved equal: {answer.subject}")
                    for answer in result.answers
                    if answer.verdict == "equal"
                ),
                *map(Statement, result.notes),
            ),
        ),
    )


def conclusion_of(result: Reproducibility) -> str:
    """Return the verdict on a function as a sentence."""
    verdicts = Counter(answer.verdict for answer in result.answers)
    comparisons = counted(len(result.answers), "comparison")
    if result.verdict == "equal":
        return f"`{result.function}` has equal bits on {result.target} in {comparisons}"
    if result.verdict == "differs":
        return (
            f"Bits of `{result.function}` may differ on {result.target}: "
            f"{verdicts['differs']} of {comparisons}"
        )
    return (
        f"It is unknown whether `{result.function}` has equal bits on {result.target}: "
        f"{verdicts['unknown']} of {comparisons}"
    )


def _finding(answer: Answer, function: str) -> Finding:
    differs = answer.verdict == "differs"
    return Finding(
        kind=answer.verdict,
        check="reproduce",
        severity="error" if differs else "warning",
        message=f"{answer.question}: {answer.subject}: {answer.reason}",
        kernel=function,
        location=location_of_line(answer.where),
        notes=(f"first element: {answer.witness}",) if answer.witness else (),
        help=_HELP[answer.question] if differs else None,
    )
