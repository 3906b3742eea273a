"""The command line of this process, for reports that name it."""

from __future__ import annotations

import shlex
import sys
from contextvars import ContextVar
from pathlib import Path

#: The words of the running `ttools` command, including `ttools`; empty outside a command.
#: `sys.argv` is that of the user's script while the script runs.
command_line: ContextVar[tuple[str, ...]] = ContextVar("command_line", default=())


def shown_command_line() -> str:
    """Return the running command, or the program that uses the packages, as a shell command.

    The result is empty for code that is not in a file, and `a notebook` in a notebook.
    """
    words = command_line.get()
    if words:
        return shlex.join(words)
    program = Path(sys.argv[0] if sys.argv else "").name
    if program.startswith("ipykernel"):
        return "a notebook"
    return "" if program in {"", "-c"} else shlex.join([program, *sys.argv[1:]])
