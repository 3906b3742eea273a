"""Where the command line writes, and how it words errors and notes.

Reports and script output go to standard output, everything ttools says about itself to standard
error. rich honours `NO_COLOR` and pipes; no text that arrives here holds colour codes.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from ttools.core.errors import (
    InvalidKernelError,
    KernelError,
    TtoolsError,
    UnsupportedError,
    UsageError,
)

# For output that no terminal shows; rich would take 80.
_FILE_WIDTH = 160
_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}
_FINDING_STYLES = {
    **{rf"(?m)(?<=: ){kind}\[\w+\]:": style for kind, style in _STYLES.items()},
    r"(?m)^ {6}\| [ \t]*\^+$": "bold green",
    r"(?m)^ +\d+ \|": "dim",
    r"(?m)^  help:": "bold cyan",
}


def stdout() -> Console:
    """The console of reports that were asked for."""
    return _console(stderr=False)


def stderr() -> Console:
    """The console of notes and errors."""
    return _console(stderr=True)


def _console(stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _FILE_WIDTH
    return console


def say(kind: str, message: str) -> None:
    """Writes `kind: message` on standard error, as one line unless it has several."""
    text = Text(f"{kind}: ", style=_STYLES[kind])
    text.append(message, style="default")
    stderr().print(text, soft_wrap=True)


def show_error(error: TtoolsError) -> None:
    """Writes an error of ours; located ones name their kind after their location."""
    if isinstance(error, (InvalidKernelError, KernelError, UnsupportedError)):
        text = Text(str(error))
        text.highlight_regex(r"\b(error|unsupported):", _STYLES["error"])
        stderr().print(text, soft_wrap=True)
    else:
        say("error", str(error))


def write_json(data: Any, output: Path | None, fallback: Console) -> None:
    """Writes a JSON report to a file, or to `fallback` when there is none."""
    text = json.dumps(data, indent=2)
    if output is None:
        fallback.print(text, soft_wrap=True, markup=False)
    else:
        with _opened(output) as file:
            file.write(text + "\n")


def write_text(text: str, output: Path | None) -> None:
    """Writes a report to a file, or to standard output as it is."""
    if output is not None:
        with _opened(output) as file:
            file.write(text)
        return
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def write_findings(text: str) -> None:
    """Writes the text report to standard output, coloured where that is a terminal."""
    console = stdout()
    if not console.is_terminal:
        write_text(text, None)
        return
    coloured = Text(text)
    for pattern, style in _FINDING_STYLES.items():
        coloured.highlight_regex(pattern, style)
    console.print(coloured, soft_wrap=True, end="")


def write_tables(tables: Sequence[Table | Tree], output: Path | None, fallback: Console) -> None:
    """Writes tables to a file as plain text, or to `fallback` when there is none."""
    if output is None:
        for table in tables:
            fallback.print(table)
        return
    with _opened(output) as file:
        console = Console(file=file, width=_FILE_WIDTH)
        for table in tables:
            console.print(table)


def require_folder(*outputs: Path | None) -> None:
    """Finds out before a long run that a report could not be written after it.

    Raises:
        UsageError: One of the files is a folder or may not be written, or its folder is not there.
    """
    for output in outputs:
        if output is None:
            continue
        if not output.parent.is_dir():
            raise UsageError(f"cannot write `{output}`: there is no folder `{output.parent}`")
        if output.is_dir():
            raise UsageError(f"cannot write `{output}`: it is a folder")
        if not os.access(output if output.exists() else output.parent, os.W_OK):
            raise UsageError(f"cannot write `{output}`: permission denied")


@contextmanager
def _opened(output: Path) -> Iterator[TextIO]:
    """A file to write a report to.

    If the system refuses, the user learns why, and the report goes to standard output: the run that
    it is about may have been long.
    """
    report = io.StringIO()
    yield report
    try:
        output.write_text(report.getvalue(), encoding="utf-8")
    except OSError as error:
        write_text(report.getvalue(), None)
        raise UsageError(
            f"cannot write `{output}`: {error.strerror}; the report is on standard output"
        ) from error
