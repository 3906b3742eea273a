"""`ttools tune diff OLD NEW`: which winners changed, and whether their times did.

Owns headings, units and rounding. What a change is, is `ttools.tuner`'s to say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from ttools.cli.console import say, stdout, write_tables, write_text
from ttools.cli.profile.report import seconds

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
        write_tables([_table(different)], output, stdout())
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
    write_text(json.dumps(data, indent=2, default=str) + "\n", output)


def _table(changes: Sequence[TuningChange]) -> Table:
    table = Table()
    table.add_column("kernel and key", overflow="fold")
    table.add_column("old winner", overflow="fold")
    table.add_column("new winner", overflow="fold")
    for name in ("old", "new", "ratio"):
        table.add_column(name, justify="right")
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
    from ttools.tuner.space.candidate import config_text

    return "none" if values is None else escape(config_text(values))


def _remarks(change: TuningChange) -> str:
    from ttools.tuner.space.candidate import config_text

    remarks = [] if change.ratio is None or change.sure else ["times: within noise"]
    remarks += ["another source"] if change.source_changed else []
    if None not in change.versions and change.versions[0] != change.versions[1]:
        remarks.append(f"{change.versions[0]} -> {change.versions[1]}")
    remarks += [f"{config_text(v)}: {old} -> {new}" for v, old, new in change.statuses]
    return "; ".join(remarks)
