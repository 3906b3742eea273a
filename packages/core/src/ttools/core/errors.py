"""The exceptions that ttools raises for its users.

A `TtoolsError` is a failure of the tool or a misuse of it, reported in plain text without colour; a
defect in the user's kernel is a finding, not an exception. Rendering on a console and exit codes
belong to the command line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from ttools.core.location import SourceLocation, excerpt


class TtoolsError(Exception):
    """Base of everything ttools raises on purpose; says what is wrong and what to do.

    Attributes:
        during_notes: What was being done, innermost first (see `during`).
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.during_notes: list[str] = []

    def add_during(self, note: str) -> None:
        """Records one more level of what was being done when this was raised."""
        self.during_notes.append(note)

    def __str__(self) -> str:
        return "\n".join([self._text(), *(f"During: {note}" for note in self.during_notes)])

    def _text(self) -> str:
        return self.message


class UsageError(TtoolsError):
    """The user asked for something that cannot be asked for: a wrong option, a missing file."""


@contextmanager
def file_errors(doing: str) -> Iterator[None]:
    """Reports what the system refuses meanwhile: "cannot read `x`: Permission denied".

    Args:
        doing: what follows "cannot".

    Raises:
        UsageError: a file could not be used.
    """
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot {doing}: {error.strerror}") from error


class StandInError(RuntimeError):
    """An error that ttools raises in the place of torch or CUDA, about a line of the user's."""


class _LocatedError(TtoolsError):
    """An error at a source location, reported as a compiler would."""

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
        message: The operation or feature, named as its source or dialect names it.
        location: Where it is used.
        help: What the user can do instead.
    """

    _kind = "unsupported"

    @property
    def what(self) -> str:
        """The operation or feature."""
        return self.message


class InvalidKernelError(_LocatedError, UsageError):
    """A kernel that no Triton runs: it calls itself.

    Args:
        message: What is wrong with it.
        location: Where.
        help: What the user can do instead.
    """


class KernelError(_LocatedError):
    """A kernel failed while it ran: a failed `device_assert`, a deadlock.

    Args:
        message: What happened, in which program.
        location: The operation that failed.
        help: What the user can do about it.
        kind: `deadlock` where it is one.
        program: coordinates of the first program concerned, if there is one.
    """

    def __init__(
        self,
        message: str,
        location: SourceLocation | None = None,
        help: str | None = None,
        *,
        kind: str = "",
        program: tuple[int, int, int] | None = None,
    ) -> None:
        super().__init__(message, location, help)
        self.kind = kind
        self.program = program


class LaunchRefusedError(KernelError, RuntimeError, ValueError):
    """A GPU would refuse the launch, as the one does that the CPU stands in for.

    An error, which names the kernel and no more of the launch.

    Triton raises RuntimeError or ValueError, which scripts may catch.
    """


@contextmanager
def during(note: str) -> Iterator[None]:
    """Adds `note` to a `TtoolsError` that passes through.

    Examples:
        `with during("lowering tt.reduce in softmax"): …` makes a failure end with the line
        `During: lowering tt.reduce in softmax`.
    """
    try:
        yield
    except TtoolsError as error:
        error.add_during(note)
        raise


def did_you_mean(word: str, known: Collection[str]) -> str:
    """`; did you mean `x`?` for a word that is mistyped, else nothing."""
    near = get_close_matches(word, sorted(known), n=1)
    return f"; did you mean `{near[0]}`?" if near else ""
