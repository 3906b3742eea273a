"""Exit statuses of `ttools` commands, and what becomes of errors.

A failing script's own status comes first.
"""

from __future__ import annotations

import errno

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


_PROCESSES = "raise the limit of processes and threads (`ulimit -u`)"
#: What to do about what a machine has too little of.
_ADVICE = {
    errno.ENOSPC: "make room on that disk",
    errno.EDQUOT: "make room on that disk",
    errno.EROFS: "choose a place that can be written",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`)",
    errno.ENFILE: "end processes that hold files open",
    errno.EAGAIN: _PROCESSES,
    errno.ENOMEM: "end other processes, or raise the limit of memory (`ulimit -v`)",
}


def exhaustion(error: OSError | RuntimeError) -> UsageError | None:
    """Return an error that says what the machine lacks; None for other errors."""
    if isinstance(error, RuntimeError):
        # Python has no class of its own for this.
        lacks_threads = "can't start new thread" in str(error)
        return UsageError(f"no thread can be started; {_PROCESSES}") if lacks_threads else None
    advice = _ADVICE.get(error.errno or 0)
    if advice is None:
        return None
    place = f" for `{error.filename}`" if error.filename else ""
    return UsageError(f"the system refuses to go on{place}: {error.strerror}; {advice}")
