"""Converts answers about reproducibility to a report of findings, as HTML, SARIF and the like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from ttools.core.findings.findings import Finding
from ttools.core.location import location_of_line
from ttools.core.reports.cases import CasesVerdict, Statement
from ttools.core.reports.registry import write_report
from ttools.core.reports.report import Report, Rule, counted
from ttools.core.reports.result import Formats, formats_of
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


#: Formats that a report of findings adds to the formats of every result.
_FORMATS = ("html", "brief", "sarif", "junit", "github")


@formats_of(Reproducibility)
def _formats(result: Reproducibility) -> Formats:
    return {form: partial(_written, result, form) for form in _FORMATS}


def _written(result: Reproducibility, form: str) -> str:
    return write_report(report_of(result), form)


def report_of(result: Reproducibility) -> Report:
    """Return the report of all answers about a function."""
    counts = Counter(answer.question for answer in result.answers)
    name = result.function.rpartition(":")[2]
    return Report(
        findings=tuple(_finding(alike, name) for alike in _alike(result.failures)),
        target=result.function,
        rules={
            kind: Rule(meaning, page=_PAGE, can_be_suppressed=False)
            for kind, meaning in _MEANINGS.items()
        },
        cases=CasesVerdict(
            function=name,
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


def _alike(answers: Sequence[Answer]) -> list[list[Answer]]:
    """Return the answers in groups that have the same question, verdict, reason and line."""
    groups: dict[tuple[str, ...], list[Answer]] = {}
    for answer in answers:
        key = answer.question, answer.verdict, answer.reason, answer.where
        groups.setdefault(key, []).append(answer)
    return list(groups.values())


def _finding(alike: Sequence[Answer], function: str) -> Finding:
    """Return one finding for answers that have the same question, verdict, reason and line."""
    first, differs = alike[0], alike[0].verdict == "differs"
    notes = [f"first element: {first.witness}" if first.witness else ""]
    notes += [f"the same for: {answer.subject}" for answer in alike[1:]]
    return Finding(
        kind=first.verdict,
        check="reproduce",
        severity="error" if differs else "warning",
        message=f"{first.question}: {first.subject}: {first.reason}",
        kernel=function,
        location=location_of_line(first.where),
        notes=tuple(filter(None, notes)),
        count=len(alike),
        help=_HELP[first.question] if differs else None,
    )
