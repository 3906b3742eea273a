"""Output of the command line, and wording of errors and notes.

Reports and script output go to standard output, messages about ttools to standard error. rich
honours `NO_COLOR` and pipes; texts passed to this module contain no colour codes.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, TextIO, cast

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from ttools.cli import exit_codes
from ttools.core.errors import (
    InvalidKernelError,
    KernelError,
    TtoolsError,
    UnsupportedError,
    UsageError,
)
from ttools.core.process.streams import standard_output_kept

#: File names and values may contain text that looks like rich markup.
_PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
# Width of output to files and pipes; rich's default is 80.
_FILE_WIDTH = 160
_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}
_FINDING_STYLES = {
    **{rf"(?m)(?<=: ){kind}\[\w+\]:": style for kind, style in _STYLES.items()},
    r"(?m)^ {6}\| [ \t]*\^+$": "bold green",
    r"(?m)^ +\d+ \|": "dim",
    r"(?m)^  help:": "bold cyan",
}


#: The stream for the report while standard output is reserved for it, else None.
_report: TextIO | None = None
_kept = ExitStack()
#: Formats that may be mixed with output of the script.
_SHARED_FORMATS = ("text", "github")


def keep_stdout_for_report(form: str | None, output: Path | None) -> None:
    """Reserve standard output for a report in a machine-readable format, if it goes there.

    From then on, output of the script and its child processes goes to standard error.

    Args:
        form: Format of the report; None for text.
        output: File of the report; None for standard output.
    """
    global _report
    if output is None and form is not None and form not in _SHARED_FORMATS and _report is None:
        _report = _kept.enter_context(standard_output_kept())


def release_stdout() -> None:
    """Give standard output back to the script."""
    global _report
    _report = None
    _kept.close()


def stdout() -> Console:
    """Return the console for requested reports."""
    return _console(stderr=False)


def stderr() -> Console:
    """Return the console for notes and errors."""
    return _console(stderr=True)


def _console(stderr: bool) -> Console:
    console = Console(file=None if stderr else _report, stderr=stderr, **_PLAIN)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _FILE_WIDTH
    return console


Verbosity = Literal["quiet", "normal", "verbose"]
_verbosity: Verbosity = "normal"


def set_verbosity(verbosity: Verbosity) -> None:
    """Set the level of detail that `say` and `show_error` use from now on."""
    global _verbosity
    _verbosity = verbosity


def verbosity() -> Verbosity:
    """Return the level that `set_verbosity` has set."""
    return _verbosity


def say(kind: str, message: str) -> None:
    """Write `kind: message` to standard error, without wrapping lines of the message.

    With `--quiet`, notes are left out.
    """
    if kind == "note" and _verbosity == "quiet":
        return
    text = Text(f"{kind}: ", style=_STYLES[kind])
    text.append(message, style="default")
    stderr().print(text, soft_wrap=True)


def say_interrupted(status: int, report: str) -> None:
    """Warn that a run was interrupted, if it was.

    Args:
        status: Exit status of the run.
        report: Name of the affected report, such as "the profile".
    """
    if status == exit_codes.INTERRUPTED:
        say("warning", f"the run was interrupted: {report} covers what ran until then")


def show_error(error: TtoolsError) -> None:
    """Write an error of ttools; texts with a location already contain the kind of the error.

    With `--verbose`, the traceback comes first.
    """
    if _verbosity == "verbose":
        stderr().print(
            Text("".join(traceback.format_exception(error))), style="dim", soft_wrap=True, end=""
        )
    if isinstance(error, (InvalidKernelError, KernelError, UnsupportedError)):
        text = Text(str(error))
        text.highlight_regex(r"\b(error|unsupported):", _STYLES["error"])
        stderr().print(text, soft_wrap=True)
    else:
        say("error", str(error))


def write_json(data: Any, output: Path | None, stream: TextIO | None = None) -> None:
    """Write a report as JSON, see `write_text`; unsupported values are written as text."""
    from ttools.core.json_document import json_text

    write_text(json_text(data), output, stream)


def write_text(
    text: str, output: Path | None, stream: TextIO | None = None, *, announces: bool = True
) -> None:
    """Write a report to a file, or unchanged to a stream.

    If the system rejects the file, the report goes to standard output with an error that gives the
    reason, because the run may have taken long.

    Args:
        text: Content of the report.
        output: File to write; None for a stream.
        stream: Stream to use if there is no file; by default standard output.
        announces: If True, a note names the file.

    Raises:
        UsageError: The system rejects the file, or the stream is closed or full.
    """
    if output is not None:
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            write_text(text, None)
            raise UsageError(
                f"cannot write `{output}`: {error.strerror}; the report is on standard output"
            ) from error
        if announces:
            say("note", f"the report is in {output}")
        return
    stream = stream or _report or sys.stdout
    name = "standard error" if stream is sys.stderr else "standard output"
    if stream is _nowhere:
        raise UsageError(f"cannot write the report: {name} is closed")
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:  # the reader has closed the pipe; end silently
        raise
    except OSError as error:
        drop_output(stream)
        raise UsageError(f"cannot write the report to {name}: {error.strerror}") from error


#: Replaces closed standard streams.
_nowhere: TextIO | None = None


def replace_closed_streams() -> None:
    """Replace closed standard streams by one that discards its content.

    Their file descriptors are also reopened. Otherwise a newly opened file could get one of these
    descriptors, and native code would write its output into that file.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    # Python sets closed streams to None.
    sys.stdout = sys.stdout or _open_nowhere()
    sys.stderr = sys.stderr or _open_nowhere()


def _open_nowhere() -> TextIO:
    """Return a stream that discards its content; it stays open until the process ends."""
    global _nowhere
    _nowhere = _nowhere or Path(os.devnull).open("w")  # noqa: SIM115
    return _nowhere


def drop_output(stream: TextIO | None) -> None:
    """Discard everything written to a stream, because its file accepts no more data.

    Otherwise Python would try to write it again at exit, and report the failure.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, cast("TextIO", stream).fileno())
        os.close(nowhere)


def write_findings(text: str) -> None:
    """Write the text report to standard output, with colours on a terminal."""
    console = stdout()
    if not console.is_terminal:
        write_text(text, None)
        return
    coloured = Text(text)
    for pattern, style in _FINDING_STYLES.items():
        coloured.highlight_regex(pattern, style)
    console.print(coloured, soft_wrap=True, end="")


def new_table(title: str | None, left: Iterable[str], right: Iterable[str]) -> Table:
    """Return a table with columns of text, then columns of numbers."""
    table = Table(title=title, title_justify="left")
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right")
    return table


def write_tables(
    tables: Iterable[RenderableType], output: Path | None, console: Console | None = None
) -> None:
    """Write tables to a file as plain text, or to a console, by default standard output."""
    shown = (console or stdout()) if output is None else None
    if shown is not None and shown.is_terminal:
        for table in tables:
            shown.print(table, crop=False)
        return
    file = io.StringIO()
    width = shown.width if shown else _FILE_WIDTH
    plain = Console(file=file, width=width, force_terminal=False, **_PLAIN)
    for table in tables:
        plain.print(table, crop=False)
    # Trailing spaces are removed, since the text may be pasted or read by programs.
    text = "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())
    write_text(text, output, sys.stderr if shown is not None and shown.stderr else None)


def require_folder(*outputs: Path | None) -> None:
    """Check before a long run that a report can be written after it.

    Raises:
        UsageError: One of the files is a folder or not writable, or its folder does not exist.
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
