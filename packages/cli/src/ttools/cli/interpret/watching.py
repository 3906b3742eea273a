"""What `ttools interpret` reports of watched variables.

Owns where the report goes. What it says is `ttools.watch.report.summary`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    from ttools.watch.watching import read_size

    return read_size(text)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is to be reported.

    Attributes:
        watch: `--watch` was given; a trace alone is not shown.
        trace: the file values are recorded in.
        compare: what they are compared with; the differences are reported in their stead.
        form: `text`, `json` or `html`.
        output: a file for the report; standard output by default.

    Raises:
        UsageError: a page is wanted without a file for it, or with what it cannot show.
    """

    watch: bool
    trace: Path | None
    compare: str | None
    form: str
    output: Path | None

    def __post_init__(self) -> None:
        if self.picture and self.output is None:
            raise UsageError("--format html is a page: name a file for it with --output")
        if self.picture and self.compare is not None:
            raise UsageError("--compare has no page: leave --format html")

    @property
    def picture(self) -> bool:
        """Whether the report is a page."""
        return self.form == "html"

    @property
    def any(self) -> bool:
        """Whether anything is recorded."""
        return self.watch or self.picture or self.trace is not None or self.compare is not None


def report(run: Interpretation, wanted: Wanted, target: str) -> bool:
    """Writes the values that were watched or how they differ, and says where a trace is.

    Args:
        run: that recorded them.
        wanted: how to report.
        target: what was run.

    Returns:
        Whether values were compared and differ.
    """
    recording = run.watched
    if wanted.trace is not None:
        count, launches = len(recording), len(recording.launches)
        values, runs = "s" * (count != 1), "es" * (launches != 1)
        say("note", f"{count:,} value{values} of {launches:,} launch{runs} are in {wanted.trace}")
    if wanted.compare is not None and not run.unmatched:
        return _report_comparison(run, wanted)
    if wanted.picture:
        assert wanted.output is not None  # checked when it was made
        run.picture(target).save(wanted.output)
        return False
    from ttools.watch.report import summary

    form, output = wanted.form, wanted.output
    if form == "json":
        write_json(summary.as_data(recording), output, stdout())
    elif wanted.watch and len(recording):
        write_text("".join(f"{line}\n" for line in summary.text_lines(recording)), output)
    return False


def _report_comparison(run: Interpretation, wanted: Wanted) -> bool:
    from ttools.watch.report import comparison_text

    found = run.comparison
    if wanted.form == "json":
        write_json(comparison_text.as_data(found), wanted.output, stdout())
    else:
        lines = comparison_text.text_lines(found)
        write_text("".join(f"{line}\n" for line in lines), wanted.output)
    return found.first is not None


def refuse_unmatched(run: Interpretation) -> None:
    """Refuses names and lines to watch that matched nothing.

    Raises:
        UsageError: there are any.
    """
    if run.unmatched:
        raise UsageError("\n".join(run.unmatched))
