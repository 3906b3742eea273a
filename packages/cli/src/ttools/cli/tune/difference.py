"""`ttools tune diff OLD NEW`: which winners changed, and whether their times did.

Owns headings, units and rounding. What a change is, is `ttools.tuner`'s to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from ttools.cli.blocks import block
from ttools.cli.console import say, write_json, write_tables
from ttools.core.reports.numbers import seconds
from ttools.core.reports.report import config_text

if TYPE_CHECKING:
    from ttools.tuner.store.difference import TuningChange
    from ttools.tuner.store.store import TuningEntry


def write_as_text(
    old: Sequence[TuningEntry], new: Sequence[TuningEntry], output: Path | None
) -> None:
    """A block per kernel and key that changed."""
    from ttools.tuner.store.difference import changes

    found = changes(old, new)
    different = [change for change in found if change.is_one]
    if different:
        write_tables(map(_block, different), output)
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


def _block(change: TuningChange) -> RenderableType:
    key = ", ".join(f"{n}={v}" for n, v in change.key.items() if n != "dtypes")
    times = [seconds(each) or "not timed" for each in (change.old_seconds, change.new_seconds)]
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
    remarks += ["another source"] if change.source_changed else []
    if None not in change.versions and change.versions[0] != change.versions[1]:
        remarks.append(f"{change.versions[0]} -> {change.versions[1]}")
    remarks += [f"{config_text(v)}: {old} -> {new}" for v, old, new in change.statuses]
    return "; ".join(remarks)
