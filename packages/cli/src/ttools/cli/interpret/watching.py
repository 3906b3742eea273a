"""Output of watched variables in `ttools interpret`."""

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
class WatchOptions:
    """The options for watching variables.

    Attributes:
        watch: Names from `--watch`. If empty, all variables are recorded, and if only a trace was
            requested, no values are shown.
        trace: File to record values in.
        trace_limit: Maximum size of recorded values, such as `500M`.
        compare: Reference for the values; differences are reported instead of the values.
        rtol: Relative tolerance of the comparison.
        atol: Absolute tolerance of the comparison.
        form: Format of the report: `text`, `json` or `html`.
        output: File for the report; by default standard output.

    Raises:
        UsageError: Options contradict each other, or there is a limit although nothing is recorded.
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
        if self.picture and self.compare is not None:
            raise UsageError("--compare has no HTML page: omit --format html")
        if self.trace_limit is not None and not self.any:
            raise UsageError(
                "--trace-limit needs recorded values: use --trace, --watch, --compare or --format "
                "html"
            )

    @property
    def picture(self) -> bool:
        """Return whether the report is an HTML page."""
        return self.form == "html"

    @property
    def any(self) -> bool:
        destinations = (self.trace, self.compare)
        return bool(self.watch) or self.picture or destinations != (None, None)

    def run(self, **engine: Any) -> WatchedRun:
        """Return the run that records the values.

        Args:
            engine: Further arguments of `watch`.

        Raises:
            UsageError: Something cannot be watched, or the trace cannot be written.
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
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if size < 1:
        raise UsageError(f"`{text}` is not a size: write, for example, 500M or 2G")
    return size


def report(run: WatchedRun, requested: WatchOptions, target: str) -> bool:
    """Write the watched values or their differences, and name the file of a trace.

    Args:
        run: The run that has ended.
        requested: Options of the report.

    Returns:
        True if values were compared and differ.
    """
    recording = run.recording
    if requested.trace is not None:
        count, launches = len(recording), len(recording.launches)
        values, runs = "s" * (count != 1), "es" * (launches != 1)
        say(
            "note", f"{count:,} value{values} of {launches:,} launch{runs} are in {requested.trace}"
        )
    if requested.compare is not None and not run.unmatched:
        return _report_comparison(run, requested)
    if requested.picture:
        write_text(run.picture(target).html(), requested.output)
        return False
    from ttools.watch.report import summary

    form, output = requested.form, requested.output
    if form == "json":
        write_json(summary.as_data(recording), output)
    elif requested.watch and len(recording):
        write_text("".join(f"{line}\n" for line in summary.text_lines(recording)), output)
    return False


def _report_comparison(run: WatchedRun, requested: WatchOptions) -> bool:
    from ttools.watch.report import comparison

    comparison_result = run.comparison
    if requested.form == "json":
        write_json(comparison.as_data(comparison_result), requested.output)
    else:
        lines = comparison.text_lines(comparison_result)
        write_text("".join(f"{line}\n" for line in lines), requested.output)
    return comparison_result.first is not None
