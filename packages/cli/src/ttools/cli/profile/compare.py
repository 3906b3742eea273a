"""`ttools profile compare`: two profiles beside each other, and an exit status for CI."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from ttools.cli import exit_codes, options
from ttools.cli.console import new_table, require_folder, say, write_json, write_tables
from ttools.cli.profile.report import seconds
from ttools.core.errors import UsageError

if TYPE_CHECKING:
    from ttools.profiler.report.comparison import Change

BaseArgument = Annotated[Path, typer.Argument(metavar="BASE", help="A profile in JSON.")]
NewArgument = Annotated[Path, typer.Argument(metavar="NEW", help="A later one.")]
RegressionOption = Annotated[
    str,
    typer.Option(
        "--fail-on-regression",
        metavar="SHARE",
        help="Exit with 1 if a kernel is slower by so much, as 5%.",
    ),
]


ScopesOption = Annotated[
    bool,
    typer.Option(
        "--scopes/--no-scopes", help="Compare a kernel's launches in different scopes separately."
    ),
]


def profile_compare_command(
    base: BaseArgument,
    new: NewArgument,
    fail_on_regression: RegressionOption = "5%",
    scopes: ScopesOption = True,
    form: options.FormatOption = "text",
    output: options.OutputOption = None,
) -> None:
    """Compare two profiles, written by `ttools profile --format json --output FILE`.

    Kernels are matched by scope, name and configuration. A kernel counts as slower if the 99%
    interval of the ratio of its medians lies above 1 and reaches the share. The exit status is 1 if
    one is.
    """
    from ttools.profiler.report.comparison import compare_profiles, read_profile

    threshold = _share(fail_on_regression)
    require_folder(output)
    changes = compare_profiles(read_profile(base), read_profile(new), threshold, scopes=scopes)
    if form == "json":
        data = {
            "schema": "ttools.comparison/1",
            "threshold": threshold,
            "kernels": [asdict(change) for change in changes],
        }
        write_json(data, output)
    else:
        write_tables([_table(changes)], output)
    slower = ["/".join((*c.scope, c.kernel)) for c in changes if c.verdict == "slower"]
    if slower:
        say("error", f"slower by {threshold * 100:.3g}% or more: {', '.join(slower)}")
        raise typer.Exit(exit_codes.FINDINGS)


def _share(text: str) -> float:
    """`5%` or `0.05`.

    Raises:
        UsageError: it is neither, or negative.
    """
    word = text.strip()
    try:
        value = float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise UsageError(f"--fail-on-regression {text}: give a share like 5% or 0.05")
    return value


def _table(changes: list[Change]) -> Table:
    scoped = any(change.scope for change in changes)
    left = (*(["scope"] if scoped else []), "kernel", "config", "verdict")
    table = new_table("Median time of a launch", left, ("base", "new", "ratio", "99% interval"))
    for change in changes:
        known = change.low is not None and change.high is not None
        table.add_row(
            *(["/".join(change.scope)] if scoped else []),
            change.kernel,
            change.config,
            change.verdict,
            seconds(change.base_s),
            seconds(change.new_s),
            "" if change.ratio is None else f"{change.ratio:.3f}",
            f"{change.low:.3f} to {change.high:.3f}" if known else "",
        )
    return table
