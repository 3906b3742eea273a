"""Where the command line writes, and how it words errors and notes.

Reports and script output go to standard output, everything ttools says about itself to standard
error. rich honours `NO_COLOR` and pipes; no text that arrives here holds colour codes.
"""

from __future__ import annotations

import contextlib
import io
import json
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

#: Names of files and values hold brackets and colons that are no markup of rich's.
_PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
# For output that no terminal shows; rich would take 80.
_FILE_WIDTH = 160
_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}
_FINDING_STYLES = {
    **{rf"(?m)(?<=: ){kind}\[\w+\]:": style for kind, style in _STYLES.items()},
    r"(?m)^ {6}\| [ \t]*\^+$": "bold green",
    r"(?m)^ +\d+ \|": "dim",
    r"(?m)^  help:": "bold cyan",
}


#: Where reports go while standard output is kept for one; standard output itself if None.
_report: TextIO | None = None
_kept = ExitStack()
#: Formats that people read where the script writes, too.
_SHARED_FORMATS = ("text", "github")


def keep_stdout_for_report(form: str | None, output: Path | None) -> None:
    """Keeps standard output for a report in a format that programs read, if it is to go there.

    What the script writes there, and processes that it starts, goes to standard error from now on.

    Args:
        form: format of the report; None for text.
        output: file that it goes to; standard output if None.
    """
    global _report
    if output is None and form is not None and form not in _SHARED_FORMATS and _report is None:
        _report = _kept.enter_context(standard_output_kept())


def release_stdout() -> None:
    """Has standard output be the script's again."""
    global _report
    _report = None
    _kept.close()


def stdout() -> Console:
    """The console of reports that were asked for."""
    return _console(stderr=False)


def stderr() -> Console:
    """The console of notes and errors."""
    return _console(stderr=True)


def _console(stderr: bool) -> Console:
    console = Console(file=None if stderr else _report, stderr=stderr, **_PLAIN)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _FILE_WIDTH
    return console


Verbosity = Literal["quiet", "normal", "verbose"]
_verbosity: Verbosity = "normal"


def set_verbosity(verbosity: Verbosity) -> None:
    """Chooses what `say` and `show_error` write from now on."""
    global _verbosity
    _verbosity = verbosity


def verbosity() -> Verbosity:
    """What `set_verbosity` chose."""
    return _verbosity


def say(kind: str, message: str) -> None:
    """Writes `kind: message` on standard error, as one line unless it has several.

    Notes are left out under `--quiet`.
    """
    if kind == "note" and _verbosity == "quiet":
        return
    text = Text(f"{kind}: ", style=_STYLES[kind])
    text.append(message, style="default")
    stderr().print(text, soft_wrap=True)


def say_interrupted(status: int, report: str) -> None:
    """Warns that a run was interrupted, if it was.

    Args:
        status: exit status of the run.
        report: what is made of it, as "the profile".
    """
    if status == exit_codes.INTERRUPTED:
        say("warning", f"the run was interrupted: {report} covers what ran until then")


def show_error(error: TtoolsError) -> None:
    """Writes an error of ours; located ones name their kind after their location.

    With `--verbose` the traceback comes first: it is about ttools, not about the user's mistake.
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
    """Writes a report as JSON, see `write_text`; what JSON has not is written as its text."""
    write_text(json.dumps(data, indent=2, default=str) + "\n", output, stream)


def write_text(
    text: str, output: Path | None, stream: TextIO | None = None, *, announces: bool = True
) -> None:
    """Writes a report to a file, or as it is to a stream, standard output by default.

    If the system refuses the file, the user learns why, and the report goes to standard output: the
    run that it is about may have been long.

    Args:
        text: the report.
        output: a file; None for a stream.
        stream: where to if not to a file.
        announces: whether a note says where the file is.

    Raises:
        UsageError: The system refuses the file, or the stream is closed or full.
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
    except BrokenPipeError:  # whoever reads has seen enough, which ends the command in silence
        raise
    except OSError as error:
        drop_output(stream)
        raise UsageError(f"cannot write the report to {name}: {error.strerror}") from error


#: Stands for standard streams that are closed.
_nowhere: TextIO | None = None


def replace_closed_streams() -> None:
    """Puts a stream that holds nothing in the place of standard streams that are closed.

    Their numbers are taken as well: a file would get one of them, and what native code prints would
    go into that file.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    # Python has None in their place.
    sys.stdout = sys.stdout or _open_nowhere()
    sys.stderr = sys.stderr or _open_nowhere()


def _open_nowhere() -> TextIO:
    """Return the stream that holds nothing; it stays open as long as the process."""
    global _nowhere
    _nowhere = _nowhere or Path(os.devnull).open("w")  # noqa: SIM115
    return _nowhere


def drop_output(stream: TextIO | None) -> None:
    """Sends what a stream holds and will hold to nowhere, as its file takes no more.

    Otherwise Python would try to write it once more at its end, and say what fails.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, cast("TextIO", stream).fileno())
        os.close(nowhere)


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


def new_table(title: str | None, left: Iterable[str], right: Iterable[str]) -> Table:
    """A table with columns of text, then columns of numbers."""
    table = Table(title=title, title_justify="left")
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right")
    return table


def write_tables(
    tables: Iterable[RenderableType], output: Path | None, console: Console | None = None
) -> None:
    """Writes tables to a file as plain text, or to a console, standard output by default."""
    shown = (console or stdout()) if output is None else None
    if shown is not None and shown.is_terminal:
        for table in tables:
            shown.print(table)
        return
    file = io.StringIO()
    width = shown.width if shown else _FILE_WIDTH
    plain = Console(file=file, width=width, force_terminal=False, **_PLAIN)
    for table in tables:
        plain.print(table)
    # Without the spaces that fill lines up: the text is for other programs, or to be pasted.
    text = "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())
    write_text(text, output, sys.stderr if shown is not None and shown.stderr else None)


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
