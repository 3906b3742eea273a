"""`ttools profile compare`: profiles side by side, and an exit status for CI."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import RenderableType
from rich.table import Table

from ttools.cli import exit_codes, options
from ttools.cli.blocks import MOST_SHOWN, block, left_out, paragraph
from ttools.cli.commands import Command
from ttools.cli.console import new_table, require_folder, say, write_json, write_tables, write_text
from ttools.cli.markdown import markdown
from ttools.cli.profile.kernel_names import readable_name
from ttools.core.errors import UsageError
from ttools.core.reports.numbers import seconds

if TYPE_CHECKING:
    from ttools.profiler.report.comparison import Change

_SIDES = ("--before", "--after")


class SidesCommand(Command):
    """A command whose options `--before` and `--after` take several words each."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Repeat the option before each of its words, as click requires."""
        return super().parse_args(ctx, repeated(args))


def repeated(words: list[str]) -> list[str]:
    """Rewrite `--before A B` as `--before A --before B`."""
    expanded: list[str] = []
    side: str | None = None
    for word in words:
        if word.startswith("-"):
            side = word if word in _SIDES else None
        elif side is not None and expanded[-1] != side:
            expanded.append(side)
        expanded.append(word)
    return expanded


FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[BASE NEW]", help="Two profiles in JSON, the earlier one first."),
]
BeforeOption = Annotated[
    list[Path] | None,
    typer.Option("--before", metavar="FILE…", help="Profiles of several runs before a change."),
]
AfterOption = Annotated[
    list[Path] | None,
    typer.Option("--after", metavar="FILE…", help="Profiles of several runs after the change."),
]
RegressionOption = Annotated[
    str,
    typer.Option(
        "--fail-on-regression",
        metavar="SHARE",
        help="Exit with 1 if a kernel is slower by at least this share, such as 5%.",
    ),
]
ComparisonFormatOption = Annotated[
    Literal["text", "markdown", "json"],
    typer.Option("--format", help="Format of the report.", rich_help_panel="Report"),
]
ScopesOption = Annotated[
    bool,
    typer.Option(
        "--scopes/--no-scopes", help="Compare a kernel's launches in different scopes separately."
    ),
]


def profile_compare_command(
    files: FilesArgument = None,
    before: BeforeOption = None,
    after: AfterOption = None,
    fail_on_regression: RegressionOption = "5%",
    scopes: ScopesOption = True,
    form: ComparisonFormatOption = "text",
    output: options.OutputOption = None,
) -> None:
    """Compare profiles written by `ttools profile --format json --output FILE`.

    Give a profile of each side, or several as `--before A B C --after D E F`: only several show how
    much runs of the same program differ. Kernels are matched by scope, name and configuration. A
    kernel is slower if the interval of the ratio of its times lies above 1 and reaches the given
    share, the same if the interval lies within the share, and inconclusive if it allows both. The
    exit status is 1 if a kernel is slower.
    """
    from ttools.profiler.report.comparison import compare_profiles, read_profile

    threshold = _share(fail_on_regression)
    sides = _sides(files or [], before or [], after or [])
    require_folder(output)
    base, new = ([read_profile(path) for path in side] for side in sides)
    changes = compare_profiles(base, new, threshold, scopes=scopes)
    if any(profiled.timed_on == "CPU" for profiled in (*base, *new)):
        say(
            "warning",
            "these times were measured on a CPU that other programs share, so they say little "
            "about a GPU; give several profiles per side, recorded alternately",
        )
    if form == "json":
        data = {
            "schema": "ttools.profile-comparison/2",
            "threshold": threshold,
            "before": [str(path) for path in sides[0]],
            "after": [str(path) for path in sides[1]],
            "kernels": [asdict(change) for change in changes],
        }
        write_json(data, output)
    elif form == "markdown":
        write_text(markdown([_table(changes)]), output)
    else:
        write_tables(_blocks(changes), output)
    _conclude(changes, threshold)


def _sides(
    files: list[Path], before: list[Path], after: list[Path]
) -> tuple[list[Path], list[Path]]:
    """Return the files of both sides."""
    if files and (before or after):
        raise UsageError("give either BASE and NEW, or --before FILE… and --after FILE…")
    if files:
        if len(files) != 2:
            raise UsageError(
                f"give two profiles, not {len(files)}; for several profiles per side, use --before "
                "FILE… --after FILE…"
            )
        return [files[0]], [files[1]]
    for side, name in ((before, "--before"), (after, "--after")):
        if not side:
            raise UsageError(f"there is no profile to compare: give BASE NEW, or {name} FILE…")
        if len(set(side)) < len(side):
            raise UsageError(f"{name} names a file twice, which would count as two runs")
    return before, after


def _conclude(changes: list[Change], threshold: float) -> None:
    """Report what is slower or inconclusive, and exit with the status."""
    unsure = [_name(change) for change in changes if change.verdict == "inconclusive"]
    if unsure:
        say("note", f"inconclusive; use more profiles per side: {', '.join(unsure)}")
    slower = [_name(change) for change in changes if change.verdict == "slower"]
    if slower:
        say("error", f"slower by {threshold * 100:.3g}% or more: {', '.join(slower)}")
        raise typer.Exit(exit_codes.FINDINGS)


def _name(change: Change) -> str:
    name = "/".join((*change.scope, readable_name(change.kernel)))
    return f"{name} [{change.config}]" if change.config else name


def _share(text: str) -> float:
    """Parse `5%` or `0.05`."""
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
    table = new_table("Median time of a launch", left, ("base", "new", "ratio", "interval"))
    for change in changes:
        has_interval = change.low is not None and change.high is not None
        table.add_row(
            *(["/".join(change.scope)] if scoped else []),
            readable_name(change.kernel),
            change.config,
            change.verdict,
            seconds(change.base_s),
            seconds(change.new_s),
            "" if change.ratio is None else f"{change.ratio:.3f}",
            f"{change.low:.3f} to {change.high:.3f}" if has_interval else "",
        )
    return table


#: Order of verdicts, the most important first.
_ORDER = ("slower", "inconclusive", "new", "removed", "too few launches", "faster", "same")


def _blocks(changes: list[Change]) -> Iterator[RenderableType]:
    """Yield a block per kernel, with at most ten per verdict."""
    yield paragraph("Median time of a launch: ratio of new to base, its interval, and both times\n")
    verdicts = dict.fromkeys((*_ORDER, *(change.verdict for change in changes)))
    for verdict in verdicts:
        matching = [change for change in changes if change.verdict == verdict]
        for change in matching[:MOST_SHOWN]:
            yield block(_name(change), [(verdict, _change_text(change))])
        rest = left_out(len(matching) - MOST_SHOWN, f"more `{verdict}`", "--format json")
        if rest:
            yield paragraph(f"{rest}\n")


def _change_text(change: Change) -> str:
    base, new = seconds(change.base_s) or "absent", seconds(change.new_s) or "absent"
    if change.ratio is None:
        return f"{new}, was {base}"
    has_interval = change.low is not None and change.high is not None
    interval = f" ({change.low:.3f} to {change.high:.3f})" if has_interval else ""
    return f"{change.ratio:.3f}{interval}: {new}, was {base}"
