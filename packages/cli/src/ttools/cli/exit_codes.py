"""Exit statuses of `ttools` commands, and the exit status for each kind of error.

If a script fails, the command ends with the script's own status instead. The table in
`docs/reference/cli.md` lists these values.
"""

from __future__ import annotations

import errno

from ttools.core.errors import KernelError, TtoolsError, UsageError
from ttools.core.process.thread_limit import ADVICE, ThreadLimitError, is_thread_limit

#: Nothing is wrong.
OK = 0
#: A check, a comparison or a verification failed.
FINDINGS = 1
#: The command line, a setting or an input file is wrong.
USAGE = 2
#: ttools failed, or it does not support the request.
TOOL_FAILURE = 3
#: A requested decision could not be made.
UNKNOWN = 4
#: 128 + SIGINT: Ctrl-C ended the command or a part of its work.
INTERRUPTED = 130

# A KernelError arrives here only from a .ttir file; in a script it is the script's exception.
_OF_ERRORS: tuple[tuple[type[TtoolsError], int], ...] = (
    (UsageError, USAGE),
    (KernelError, FINDINGS),
    (TtoolsError, TOOL_FAILURE),
)


def of_error(error: TtoolsError) -> int:
    """Return the status of a command that ends with this error."""
    return next(status for kind, status in _OF_ERRORS if isinstance(error, kind))


#: Advice for exhausted resources, by error number.
_ADVICE = {
    errno.ENOSPC: "free some space on that disk",
    errno.EDQUOT: "free some space on that disk",
    errno.EROFS: "choose a location that can be written",
    errno.EMFILE: "raise the limit on open files (`ulimit -n`)",
    errno.ENFILE: "terminate processes that keep many files open",
    errno.EAGAIN: ADVICE,
    errno.ENOMEM: "terminate other processes, or raise the limit on memory (`ulimit -v`)",
}


def exhaustion(error: OSError | RuntimeError) -> UsageError | None:
    """Return an error that names the exhausted resource; None for other errors."""
    if isinstance(error, RuntimeError):
        return ThreadLimitError() if is_thread_limit(error) else None
    advice = _ADVICE.get(error.errno or 0)
    if advice is None:
        return None
    place = f" for `{error.filename}`" if error.filename else ""
    return UsageError(f"a system call failed{place}: {error.strerror}; {advice}")
