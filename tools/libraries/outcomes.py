"""What a case of a library came to, and the table of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

#: pass; wrong: ran, and differs from torch; unsupported: ttools refuses it with a sentence;
#: failed: any other error, a crash or a timeout; refused: the library itself, or Triton's front
#: end, does not do it, on whatever machine.
VERDICTS = ("pass", "wrong", "unsupported", "failed", "refused")


@dataclass(frozen=True)
class Outcome:
    """One case.

    Attributes:
        name: Of the case.
        verdict: One of `VERDICTS`.
        reason: One line, empty for a pass.
        seconds: What it took, with compilation.
    """

    name: str
    verdict: str
    reason: str = ""
    seconds: float = 0.0


def first_line(text: str, limit: int = 160) -> str:
    """The first line of a message that says something, cut to a length."""
    lines = [line.strip() for line in text.splitlines()]
    line = next((line for line in lines if line), "no message")
    return line if len(line) <= limit else line[: limit - 1] + "…"


def explain(error: BaseException) -> tuple[str, str]:
    """The verdict on an error and its reason: what a command or Triton's front end says first."""
    from triton.compiler.errors import CompilationError

    from ttools.core.errors import UnsupportedError

    chain = list(_causes(error))
    for each in chain:
        if isinstance(each, UnsupportedError):
            return "unsupported", first_line(str(each))
    innermost = chain[-1]
    if isinstance(innermost, CompilationError):
        return "refused", first_line(f"Triton: {innermost.error_message}")
    if any(isinstance(each, CompilationError) for each in chain):
        return "refused", first_line(f"Triton: {type(innermost).__name__}: {innermost}")
    return "failed", first_line(f"{type(error).__name__}: {error}")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def summary(outcomes: Iterable[Outcome]) -> str:
    """How many came to what."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])


def markdown(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table in Markdown; bars in cells are escaped."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for row in rows:
        cells = (cell.replace("|", "\\|") for cell in row)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
