"""What `ttools interpret` reports of watched variables.

Owns where the report goes. What it says is `ttools.interpreter.watching.summary`'s.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ttools.cli.console import say, stdout, write_json, write_text
from ttools.core.errors import UsageError

if TYPE_CHECKING:
    from ttools.interpreter.api import Interpretation


def limit_of(text: str | None) -> int | None:
    """The bytes that `--trace-limit` names."""
    if text is None:
        return None
    from ttools.interpreter.watching.watch import read_size

    return read_size(text)


def report(
    run: Interpretation, *, watched: bool, trace: Path | None, form: str, output: Path | None
) -> None:
    """Writes the values that were watched, and says where a trace is.

    Args:
        run: that recorded them.
        watched: whether `--watch` was given; a trace alone is not shown.
        trace: the file they were recorded in.
        form: `text` or `json`.
        output: a file for the report; standard output by default.
    """
    from ttools.interpreter.watching import summary

    recording = run.watched
    if trace is not None:
        count, launches = len(recording), len(recording.launches)
        values, runs = "s" * (count != 1), "es" * (launches != 1)
        say("note", f"{count:,} value{values} of {launches:,} launch{runs} are in {trace}")
    if form == "json":
        write_json(summary.as_data(recording), output, stdout())
    elif watched and len(recording):
        write_text("".join(f"{line}\n" for line in summary.text_lines(recording)), output)


def refuse_unmatched(run: Interpretation) -> None:
    """Makes an error of wishes that nothing answered.

    Raises:
        UsageError: there are such.
    """
    if run.unmatched:
        raise UsageError("\n".join(run.unmatched))
