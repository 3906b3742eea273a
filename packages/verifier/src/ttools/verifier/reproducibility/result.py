"""The answers about reproducibility, as data, text and JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ttools.core.json_document import json_text
from ttools.core.reports.notebook import Part, Text
from ttools.core.reports.report import counted
from ttools.core.reports.result import Result
from ttools.sanitizer.reproducibility.differences import Verdict

SCHEMA = "ttools.reproducibility/1"
Question = Literal["runs", "configs", "batch", "devices"]
#: The verdicts as they are shown.
_WORDS: Mapping[Verdict, str] = {
    "equal": "proved equal",
    "differs": "differs",
    "unknown": "unknown",
}
#: The verdicts, each with the term for it that all commands of ttools use.
OUTCOMES: Mapping[Verdict, Literal["passed", "failed", "unknown"]] = {
    "equal": "passed",
    "differs": "failed",
    "unknown": "unknown",
}
_WIDTH = 80
#: Maximum number of answers of each verdict and question that are shown.
_MOST_SHOWN = 6


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer to one question about a kernel or a function.

    Attributes:
        question: `runs`, `configs`, `batch` or `devices`.
        subject: The two executions that are compared.
        verdict: `equal` is proved for the launches that ran; `differs` means that the results may
            differ for some inputs.
        elements: Number of elements that were compared.
        reason: Why the verdict is `unknown` or `differs`; empty for `equal`.
        where: Line of the user's code that determines the verdict, as `file:line`; empty if
            unknown.
        witness: The first element that differs, such as `out[3]`; empty if no element differs.
    """

    question: Question
    subject: str
    verdict: Verdict
    elements: int
    reason: str = ""
    where: str = ""
    witness: str = ""

    def __str__(self) -> str:
        """Return the answer in a few lines."""
        text = f"{self.question}: {_WORDS[self.verdict]}: {self.subject}"
        if self.verdict == "equal":
            return _wrapped(f"{text}, {counted(self.elements, 'element')}")
        place = f"{self.where}: " if self.where else ""
        lines = [_wrapped(text), _wrapped(f"  {place}{self.reason}")]
        if self.witness:
            lines.append(_wrapped(f"  first element: {self.witness}"))
        return "\n".join(lines)


def _wrapped(text: str) -> str:
    """Break a text into lines that fit on a terminal; paths are not split."""
    return textwrap.fill(
        text, _WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


@dataclass(frozen=True, kw_only=True)
class Reproducibility(Result):
    """The answers about a function.

    Attributes:
        function: The function as the user named it.
        target: The GPU for which the function's kernels were compiled.
        answers: One answer for each comparison.
        notes: Sentences about what was not compared.
    """

    function: str
    target: str
    answers: tuple[Answer, ...]
    notes: tuple[str, ...] = ()

    @property
    def failures(self) -> Sequence[Answer]:
        """The answers that are not `equal`."""
        return [answer for answer in self.answers if answer.verdict != "equal"]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all answers; `unknown` if there are no answers."""
        verdicts = {answer.verdict for answer in self.answers}
        if "differs" in verdicts:
            return "differs"
        return "equal" if verdicts == {"equal"} else "unknown"

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data with schema `ttools.reproducibility/1`."""
        return {
            "schema": SCHEMA,
            "function": self.function,
            "target": self.target,
            "outcome": OUTCOMES[self.verdict],
            "answers": [asdict(answer) for answer in self.answers],
            "notes": list(self.notes),
        }

    def _formats(self) -> Mapping[str, Callable[[], str]]:
        return {**super()._formats(), "json": lambda: json_text(self.as_dict())}

    def _shown(self) -> Iterator[Part]:
        yield Text("\n".join(self._lines()))

    def _lines(self) -> Iterator[str]:
        yield f"{self.function} for {self.target}"
        shown: dict[tuple[Question, Verdict], int] = {}
        for answer in self.answers:
            key = answer.question, answer.verdict
            shown[key] = shown.get(key, 0) + 1
            if shown[key] <= _MOST_SHOWN:
                yield str(answer)
        for (question, verdict), count in shown.items():
            if count > _MOST_SHOWN:
                word = _WORDS[verdict]
                yield f"{question}: {word}: {counted(count - _MOST_SHOWN, 'further comparison')}"
        for note in self.notes:
            yield _wrapped(f"note: {note}")
