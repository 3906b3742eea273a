"""Outcomes of a library's cases, and their table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tools.harness import markdown

#: pass; finding: the test passes, but a check reports an error; wrong: the result differs from
#: torch's; unsupported: ttools does not support it; failed: any other error, a crash or a timeout;
#: skipped: the test skips itself, or the library or Triton's front end rejects it on any machine.
VERDICTS = ("pass", "finding", "wrong", "unsupported", "failed", "skipped")


@dataclass(frozen=True)
class Outcome:
    """The outcome of one case.

    Attributes:
        name: Name of the case.
        verdict: One of `VERDICTS`.
        reason: One line; empty if the case passes.
        seconds: Duration of the test's call, with compilation.
        cpu_seconds: CPU time of the call on all threads of the process, with compilation.
        report: Report of the checks, including warnings; empty without findings.
    """

    name: str
    verdict: str
    reason: str = ""
    seconds: float = 0.0
    report: str = ""
    cpu_seconds: float = 0.0


def first_line(text: str, limit: int = 160) -> str:
    """Return the first line of a message that is not empty, truncated to a length."""
    lines = [line.strip() for line in text.splitlines()]
    line = next((line for line in lines if line), "no message")
    return line if len(line) <= limit else line[: limit - 1] + "…"


def explain(error: BaseException) -> tuple[str, str]:
    """Return the verdict for an exception, and the first line of its message as the reason."""
    from triton.compiler.errors import CompilationError

    from ttools.core.errors import UnsupportedError

    chain = list(_causes(error))
    for cause in chain:
        if isinstance(cause, UnsupportedError):
            return "unsupported", first_line(str(cause))
    innermost = chain[-1]
    if isinstance(innermost, CompilationError):
        return "skipped", first_line(f"Triton: {innermost.error_message}")
    if any(isinstance(cause, CompilationError) for cause in chain):
        return "skipped", first_line(f"Triton: {type(innermost).__name__}: {innermost}")
    return "failed", first_line(f"{type(error).__name__}: {error}")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def summary(outcomes: Iterable[Outcome]) -> str:
    """Return the number of outcomes by verdict, as text."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])


def comparison(unchecked: Mapping[str, Outcome], checked: Mapping[str, Outcome]) -> str:
    """Return a table of the cases that both runs have, with a row for each file.

    Times are CPU times, which other processes on the machine hardly affect.

    Args:
        unchecked: Outcomes of plain pytest by the names of cases.
        checked: Outcomes of the same cases with checks.
    """
    files: dict[str, list[str]] = {}
    for name in checked:
        if name in unchecked:
            files.setdefault(name.partition("::")[0], []).append(name)
    rows = [_compared(file, unchecked, checked, names) for file, names in files.items()]
    every = [name for names in files.values() for name in names]
    rows.append(_compared("all", unchecked, checked, every))
    return markdown(
        ("file", "unchecked", "checked", "CPU seconds", "checked CPU seconds", "ratio"), rows
    )


def _compared(
    file: str,
    unchecked: Mapping[str, Outcome],
    checked: Mapping[str, Outcome],
    names: Sequence[str],
) -> tuple[str, ...]:
    before = [unchecked[name] for name in names]
    after = [checked[name] for name in names]
    seconds, checked_seconds = (
        sum(case.cpu_seconds for case in cases) for cases in (before, after)
    )
    ratio = f"{checked_seconds / seconds:.2f}" if seconds else ""
    times = (f"{seconds:.1f}", f"{checked_seconds:.1f}", ratio)
    return (file, summary(before), summary(after), *times)
