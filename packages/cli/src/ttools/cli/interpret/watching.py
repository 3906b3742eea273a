"""What `ttools interpret` reports of watched variables.

Owns where the report goes. What it says is `ttools.watch.report.summary`'s.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttools.cli.console import say, write_json, write_text
from ttools.core.errors import UsageError

if TYPE_CHECKING:
    from ttools.watch.api import WatchedRun


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG]?)(?:I?B)?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is to be reported.

    Attributes:
        watch: what `--watch` names; without it all is recorded, and a trace alone is not shown.
        trace: the file values are recorded in.
        trace_limit: how many bytes are recorded at most, as in `500M`.
        compare: what they are compared with; the differences are reported in their stead.
        rtol: relative tolerance of the comparison.
        atol: absolute tolerance.
        form: `text`, `json` or `html`.
        output: a file for the report; standard output by default.

    Raises:
        UsageError: a page is wanted without a file for it, or with what it cannot show; there is
            a limit, but nothing is recorded.
    """

    watch: Sequence[str]
    trace: Path | None
    trace_limit: str | None
    compare: str | None
    rtol: float | None
    atol: float | None
    form: str
    output: Path | None

    def __post_init__(self) -> None:
        if self.picture and self.output is None:
            raise UsageError("--format html is a page: name a file for it with --output")
        if self.picture and self.compare is not None:
            raise UsageError("--compare has no page: leave --format html")
        if self.trace_limit is not None and not self.any:
            raise UsageError(
                "--trace-limit is for a trace: name a file with --trace, or watch something"
            )

    @property
    def picture(self) -> bool:
        """Whether the report is a page."""
        return self.form == "html"

    @property
    def any(self) -> bool:
        given = (self.trace, self.compare)
        return bool(self.watch) or self.picture or given != (None, None)

    def run(self, **engine: Any) -> WatchedRun:
        """The run that records it.

        Args:
            engine: how kernels run: arguments of `watch`.

        Raises:
            UsageError: something cannot be watched, or the trace not be written.
        """
        from ttools.watch.api import watch
        from ttools.watch.values import DEFAULT_LIMIT

        limit = DEFAULT_LIMIT if self.trace_limit is None else _read_size(self.trace_limit)
        return watch(
            self.watch or None,
            trace=self.trace,
            limit=limit,
            compare=self.compare,
            rtol=self.rtol,
            atol=self.atol,
            picture=self.picture,
            **engine,
        )


def _read_size(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    size = int(float(found[1]) * _UNITS[found[2].upper()]) if found else 0
    if size < 1:
        raise UsageError(f"`{text}` is no size: write 500M or 2G")
    return size


def report(run: WatchedRun, wanted: Wanted, target: str) -> bool:
    """Writes the values that were watched or how they differ, and says where a trace is.

    Args:
        wanted: how to report.

    Returns:
        Whether values were compared and differ.
    """
    recording = run.recording
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
        write_json(summary.as_data(recording), output)
    elif wanted.watch and len(recording):
        write_text("".join(f"{line}\n" for line in summary.text_lines(recording)), output)
    return False


def _report_comparison(run: WatchedRun, wanted: Wanted) -> bool:
    from ttools.watch.report import comparison

    found = run.comparison
    if wanted.form == "json":
        write_json(comparison.as_data(found), wanted.output)
    else:
        lines = comparison.text_lines(found)
        write_text("".join(f"{line}\n" for line in lines), wanted.output)
    return found.first is not None
