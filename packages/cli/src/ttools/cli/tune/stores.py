"""`ttools tune show|export|diff|rules`: shows the content of a store without running anything.

`diff OLD NEW` shows which winners changed, and whether their times did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import RenderableType

from ttools.cli import options
from ttools.cli.blocks import block
from ttools.cli.console import require_folder, say, write_json, write_tables, write_text
from ttools.cli.tune import report as tune_report
from ttools.cli.tune.options import HistoryOption, TuneFormat
from ttools.core.errors import UsageError
from ttools.core.reports.numbers import seconds
from ttools.core.reports.report import config_text

if TYPE_CHECKING:
    from ttools.tuner.rules.synthesis import KernelRules
    from ttools.tuner.store.difference import TuningChange
    from ttools.tuner.store.store import TuningEntry


def write_rules_as_python(entries: Sequence[TuningEntry], output: Path | None) -> None:
    """Write a module with a function per kernel that chooses a configuration."""
    from ttools.tuner.rules.python import module_text

    write_text(module_text(_rules_of(entries)), output)


def write_rules_as_json(entries: Sequence[TuningEntry], output: Path | None) -> None:
    """Write schema `ttools.tuning-rules/1`, which `@ttools.tuner.heuristics(FILE)` reads."""
    from ttools.tuner.rules.document import rules_text

    write_text(rules_text(_rules_of(entries)), output)


def _rules_of(entries: Sequence[TuningEntry]) -> list[KernelRules]:
    from ttools.tuner.rules.synthesis import synthesise

    derived = synthesise(entries)
    for rules in derived:
        say("note", str(rules))
    return derived


def write_changes_as_text(
    old: Sequence[TuningEntry], new: Sequence[TuningEntry], output: Path | None
) -> None:
    """Write a block per kernel and key that changed."""
    from ttools.tuner.store.difference import changes

    compared = changes(old, new)
    different = [change for change in compared if change.is_one]
    if different:
        write_tables(map(_block, different), output)
    say("note", f"{len(different)} of {len(compared)} tunings differ")


def write_changes_as_json(
    old: Sequence[TuningEntry], new: Sequence[TuningEntry], output: Path | None
) -> None:
    """Write schema `ttools.tune-diff/1`: all kernels and keys of either store, times in seconds."""
    from ttools.tuner.store.difference import changes

    rows = [
        {**asdict(change), "ratio": change.ratio, "differs": change.is_one}
        for change in changes(old, new)
    ]
    data = {"schema": "ttools.tune-diff/1", "changes": rows}
    write_json(data, output)


def _block(change: TuningChange) -> RenderableType:
    key = ", ".join(f"{n}={v}" for n, v in change.key.items() if n != "dtypes")
    times = [seconds(time) or "not timed" for time in (change.old_seconds, change.new_seconds)]
    ratio = "" if change.ratio is None else f"; {change.ratio:.3f} times as long"
    same = change.old == change.new
    return block(
        f"{change.kernel} {key}".strip(),
        [
            ("winner" if same else "old winner", _config(change.old)),
            ("" if same else "new winner", "" if same else _config(change.new)),
            ("time", f"{times[1]}, was {times[0]}{ratio}"),
            ("remarks", _remarks(change)),
        ],
    )


def _config(values: Mapping[str, Any] | None) -> str:
    return "none" if values is None else config_text(values)


def _remarks(change: TuningChange) -> str:
    remarks = [] if change.ratio is None or change.sure else ["times: within noise"]
    remarks += ["the source has changed"] if change.source_changed else []
    if None not in change.versions and change.versions[0] != change.versions[1]:
        remarks.append(f"{change.versions[0]} -> {change.versions[1]}")
    remarks += [f"{config_text(v)}: {old} -> {new}" for v, old, new in change.statuses]
    return "; ".join(remarks)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A subcommand that reads stores.

    Attributes:
        writers: Writers by format; the first one is the default.
        stores: Number of stores that it takes.
    """

    writers: dict[TuneFormat, Callable[..., None]]
    stores: int = 1


#: Formats of other projects, which consist of files with names of their own.
FILES: tuple[TuneFormat, ...] = ("vllm", "sglang", "flaggems", "triton")
READINGS = {
    "show": Reading(
        writers={
            "text": partial(tune_report.write_as_text, importance=True),
            "markdown": tune_report.write_as_markdown,
            "json": partial(tune_report.write_as_json, importance=True),
            "html": tune_report.write_as_html,
        }
    ),
    "export": Reading(
        writers={
            "csv": tune_report.write_as_csv,
            "json": tune_report.write_as_json,
            "lock": tune_report.write_as_lock,
            "t4": tune_report.write_as_t4,
            **{form: partial(tune_report.write_as_files, form) for form in FILES},
        }
    ),
    "diff": Reading(
        writers={
            "text": write_changes_as_text,
            "json": write_changes_as_json,
        },
        stores=2,
    ),
    "rules": Reading(
        writers={
            "python": write_rules_as_python,
            "json": write_rules_as_json,
        }
    ),
}


StoreArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE", show_default=False, help="A store that `ttools tune` has written."
    ),
]
StoresArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="OLD NEW", show_default=False, help="Two stores, the earlier one first."
    ),
]
StoresOnlyOption = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="KERNEL", help="Tunings of this kernel only; repeatable."),
]
_form = partial(typer.Option, "--format", help="Output format.", rich_help_panel="Report")


def tune_show_command(
    store: StoreArgument = None,
    only: StoresOnlyOption = None,
    form: Annotated[Literal["text", "markdown", "json", "html"], _form()] = "text",
    output: options.OutputOption = None,
) -> None:
    """Show the tunings of a store: winners, trials, and which parameters matter."""
    read_stores(["show", *(store or ())], form, output, False, only or ())


def tune_export_command(
    store: StoreArgument = None,
    only: StoresOnlyOption = None,
    form: Annotated[
        Literal["csv", "json", "lock", "t4", "vllm", "sglang", "flaggems", "triton"], _form()
    ] = "csv",
    history: HistoryOption = False,
    output: options.OutputOption = None,
) -> None:
    """Write the tunings of a store for other programs."""
    read_stores(["export", *(store or ())], form, output, history, only or ())


def tune_diff_command(
    stores: StoresArgument = None,
    only: StoresOnlyOption = None,
    form: Annotated[Literal["text", "json"], _form()] = "text",
    output: options.OutputOption = None,
) -> None:
    """Compare the tunings of two stores."""
    read_stores(["diff", *(stores or ())], form, output, False, only or ())


def tune_rules_command(
    store: StoreArgument = None,
    only: StoresOnlyOption = None,
    form: Annotated[Literal["python", "json"], _form()] = "python",
    output: options.OutputOption = None,
) -> None:
    """Derive rules from a store that choose configurations without tuning."""
    read_stores(["rules", *(store or ())], form, output, False, only or ())


def read_stores(
    words: Sequence[str],
    form: TuneFormat | None,
    output: Path | None,
    history: bool,
    only: Sequence[str],
) -> None:
    """Carry out the subcommand `words[0]` on the stores that the other words name.

    Raises:
        UsageError: A store cannot be read, or the subcommand does not write the requested format.
    """
    word, files = words[0], [Path(file) for file in words[1:]]
    reading = READINGS[word]
    if len(files) != reading.stores:
        wanted = "one store" if reading.stores == 1 else "two stores"
        example = "FILE" if reading.stores == 1 else "OLD NEW"
        raise UsageError(f"`ttools tune {word}` takes {wanted}: ttools tune {word} {example}")
    chosen = next(iter(reading.writers)) if form is None else form
    if chosen not in reading.writers:
        formats = ", ".join(reading.writers)
        raise UsageError(f"`ttools tune {word}` writes {formats}, not {chosen}")
    if history and chosen != "csv":
        raise UsageError("--history is for `ttools tune export --format csv`")
    if chosen not in FILES or output is None or not output.is_dir():
        require_folder(output)
    entries = [_entries(file, only) for file in files]
    write = reading.writers[chosen]
    if chosen == "csv":
        write = partial(write, history=history)
    write(*entries, output)


def _entries(file: Path, only: Sequence[str]) -> list[TuningEntry]:
    from ttools.tuner.store.store import TuningStore

    store = TuningStore(file, create=False)
    try:
        entries = store.entries()
    finally:
        store.close()
    if not entries:
        say("note", f"{file} does not contain a tuning yet")
    kernels = dict.fromkeys(entry.problem.kernel for entry in entries)
    unknown = [name for name in only if name not in kernels]
    if entries and unknown:
        raise UsageError(f"`{file}` has no tuning of `{unknown[0]}`, only of {', '.join(kernels)}")
    return [entry for entry in entries if not only or entry.problem.kernel in only]
