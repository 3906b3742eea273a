"""The exceptions that ttools raises for its users.

A `TtoolsError` reports a failure of the tool or a misuse of it, in plain text without colour. A
defect in the user's kernel is a finding, not an exception.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, NamedTuple

from ttools.core.location import SourceLocation, excerpt


class TtoolsError(Exception):
    """Base class of the exceptions that ttools raises deliberately.

    Attributes:
        message: Text that says what is wrong and what to do.
        during_notes: Actions that were in progress, innermost first (see `during`).
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.during_notes: list[str] = []

    def add_during(self, note: str) -> None:
        self.during_notes.append(note)

    def __str__(self) -> str:
        return "\n".join([self._text(), *(f"During: {note}" for note in self.during_notes)])

    def _text(self) -> str:
        return self.message


class UsageError(TtoolsError, ValueError):
    """The user made an invalid request, such as a wrong option or a missing file.

    The class also derives from ValueError, which Python's own functions raise for wrong arguments.
    Code that handles the two differently must therefore catch UsageError before ValueError.
    """


@contextmanager
def file_errors(doing: str) -> Iterator[None]:
    """Turn an OSError in the `with` block into a UsageError.

    The message has a form such as "cannot read `x`: Permission denied".

    Args:
        doing: The action that failed, with its object, such as "read `x`".

    Raises:
        UsageError: The operating system does not allow the use of a file.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot {doing}: {error.strerror}") from error


class FailuresError(TtoolsError):
    """A result did not pass; the message is the result's report.

    Attributes:
        failures: The failures of the result; empty if the result is undecided.
    """

    def __init__(self, message: str, failures: Sequence[Any]) -> None:
        super().__init__(message)
        self.failures = tuple(failures)


class StandInError(RuntimeError):
    """An error that ttools raises where torch or CUDA would raise one on a GPU."""


class _LocatedError(TtoolsError):
    """An error at a source location, formatted like a compiler's diagnostic."""

    _kind = "error"

    def __init__(
        self,
        message: str,
        location: SourceLocation | None = None,
        help: str | None = None,
    ) -> None:
        super().__init__(message)
        self.location = location
        self.help = help

    def _text(self) -> str:
        head = f"{self._kind}: {self.message}"
        lines = [head if self.location is None else f"{self.location}: {head}"]
        if self.location is not None:
            lines += filter(None, [excerpt(self.location)])
            lines += (f"      called from {caller}" for caller in self.location.callers)
        if self.help is not None:
            lines.append(f"      help: {self.help}")
        return "\n".join(lines)


class UnsupportedError(_LocatedError):
    """The kernel uses something that ttools cannot run.

    Args:
        message: The operation or feature, as the source or dialect names it.
        location: The position in the kernel where it is used.
        help: A remedy or an alternative.
    """

    _kind = "unsupported"

    @property
    def what(self) -> str:
        """Return the operation or feature that is not supported."""
        return self.message


class InvalidKernelError(_LocatedError, UsageError):
    """A kernel that is invalid in every Triton implementation, such as a recursive one.

    Args:
        message: The rule that the kernel violates.
        location: The position of the error in the kernel.
        help: A remedy or an alternative.
    """


class Waiting(NamedTuple):
    """Programs of a deadlocked launch that wait in the same loop.

    Attributes:
        programs: Coordinates of the programs in the grid, in ascending order.
        location: The waiting loop; None if it is unknown.
    """

    programs: tuple[tuple[int, int, int], ...]
    location: SourceLocation | None


class KernelError(_LocatedError):
    """A kernel failed while it ran, for example in a `device_assert` or a deadlock.

    Args:
        message: Description of the event, and the program in which it happened.
        location: The operation that failed.
        help: A remedy or an alternative.
        kind: `deadlock` for a deadlock, otherwise empty.
        program: Coordinates of the first affected program, if the failure belongs to one.
        waiting: The waiting programs of a deadlock, by loop.
    """

    def __init__(
        self,
        message: str,
        location: SourceLocation | None = None,
        help: str | None = None,
        *,
        kind: str = "",
        program: tuple[int, int, int] | None = None,
        waiting: tuple[Waiting, ...] = (),
    ) -> None:
        super().__init__(message, location, help)
        self.kind = kind
        self.program = program
        self.waiting = waiting


class LaunchRefusedError(KernelError, RuntimeError, ValueError):
    """A launch that the emulated GPU would reject, for example because it needs too much memory.

    The message names the kernel but no other part of the launch. The class derives from
    RuntimeError and ValueError because scripts may catch what Triton raises in such cases.
    """


@contextmanager
def during(note: str) -> Iterator[None]:
    """Add `note` to every `TtoolsError` that leaves the `with` block.

    Examples:
        `with during("lowering tt.reduce in softmax"): …` makes a failure end with the line
        `During: lowering tt.reduce in softmax`.
    """
    try:
        yield
    except TtoolsError as error:
        error.add_during(note)
        raise


def did_you_mean(word: str, known: Collection[str], most: int = 1) -> str:
    """Return "; did you mean `x`?" for the most similar known words, or an empty string.

    Args:
        most: Maximum number of words that the question names.
    """
    matches = [f"`{match}`" for match in get_close_matches(word, sorted(known), n=most)]
    named = " or ".join(filter(None, (", ".join(matches[:-1]), *matches[-1:])))
    return f"; did you mean {named}?" if named else ""
