"""`ttools tune diff OLD NEW`: which winners changed, and whether their times did.

Owns headings, units and rounding. What a change is, is `ttools.tuner`'s to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from ttools.cli.console import new_table, say, write_json, write_tables
from ttools.cli.profile.report import seconds
from ttools.core.reports.report import config_text

if TYPE_CHECKING:
    from ttools.tuner.store.difference import TuningChange
    from ttools.tuner.store.store import TuningEntry


def write_as_text(
    old: Sequence[TuningEntry], new: Sequence[TuningEntry], output: Path | None
) -> None:
    """A row per kernel and key that changed."""
    from ttools.tuner.store.difference import changes

    found = changes(old, new)
    different = [change for change in found if change.is_one]
    if different:
        write_tables([_table(different)], output)
    say("note", f"{len(different)} of {len(found)} tunings differ")


def write_as_json(
    old: Sequence[TuningEntry], new: Sequence[TuningEntry], output: Path | None
) -> None:
    """Schema `ttools.tune-diff/1`: all kernels and keys of either store, times in seconds."""
    from ttools.tuner.store.difference import changes

    rows = [
        {**asdict(change), "ratio": change.ratio, "differs": change.is_one}
        for change in changes(old, new)
    ]
    data = {"schema": "ttools.tune-diff/1", "changes": rows}
    write_json(data, output)


def _table(changes: Sequence[TuningChange]) -> Table:
    names = ("kernel and key", "old winner", "new winner")
    table = new_table(None, names, ("old", "new", "ratio"))
    table.add_column("", overflow="fold")
    for change in changes:
        key = ", ".join(f"{n}={v}" for n, v in change.key.items() if n != "dtypes")
        table.add_row(
            escape(f"{change.kernel} {key}".strip()),
            _config(change.old),
            "same" if change.old == change.new else _config(change.new),
            "" if change.old_seconds is None else seconds(change.old_seconds),
            "" if change.new_seconds is None else seconds(change.new_seconds),
            "" if change.ratio is None else f"{change.ratio:.3f}",
            escape(_remarks(change)),
        )
    return table


def _config(values: Mapping[str, Any] | None) -> str:
    return "none" if values is None else escape(config_text(values))


def _remarks(change: TuningChange) -> str:
    remarks = [] if change.ratio is None or change.sure else ["times: within noise"]
    remarks += ["another source"] if change.source_changed else []
    if None not in change.versions and change.versions[0] != change.versions[1]:
        remarks.append(f"{change.versions[0]} -> {change.versions[1]}")
    remarks += [f"{config_text(v)}: {old} -> {new}" for v, old, new in change.statuses]
    return "; ".join(remarks)
