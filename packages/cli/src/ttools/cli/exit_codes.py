"""What the exit status of a `ttools` command means. A failing script's own status comes first."""

from __future__ import annotations

from ttools.core.errors import KernelError, TtoolsError, UsageError

OK = 0
FINDINGS = 1
USAGE = 2
TOOL_FAILURE = 3
#: 128 + SIGINT: Ctrl-C ended the command, or a part of what it was to do.
INTERRUPTED = 130

# A KernelError is of a .ttir file: in a script it is an exception of the script's.
_OF_ERRORS: tuple[tuple[type[TtoolsError], int], ...] = (
    (UsageError, USAGE),
    (KernelError, FINDINGS),
    (TtoolsError, TOOL_FAILURE),
)


def of_error(error: TtoolsError) -> int:
    """The status of a command that ends with this error."""
    return next(status for kind, status in _OF_ERRORS if isinstance(error, kind))
