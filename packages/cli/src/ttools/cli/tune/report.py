"""Tunings as tables, JSON, CSV or a lock file.

Owns headings, units and rounding. What the numbers mean is `ttools.tuner`'s to say.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from ttools.cli.console import write_json, write_tables, write_text
from ttools.cli.profile.report import seconds
from ttools.core.reports.report import config_text, counted

if TYPE_CHECKING:
    from ttools.tuner.measure.trial import Trial
    from ttools.tuner.store.store import TuningEntry


def write_as_text(entries: Sequence[TuningEntry], output: Path | None) -> None:
    """A table per kernel and key: the configurations that can win by time, then the others."""
    write_tables([_table(entry) for entry in entries if entry.trials], output)


def write_as_json(
    entries: Sequence[TuningEntry],
    output: Path | None,
    *,
    script: dict[str, Any] | None = None,
    new: dict[str, int] | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Schema `ttools.tune/1`: times in seconds."""
    data = {
        "schema": "ttools.tune/1",
        "script": script,
        "problems": [_plain(entry) for entry in entries],
        "notes": list(notes),
    }
    if new is not None:
        for row, entry in zip(data["problems"], entries, strict=True):  # type: ignore[arg-type]
            row["new_trials"] = new[str(entry.problem)]  # type: ignore[index]
    write_json(data, output)


def write_as_csv(
    entries: Sequence[TuningEntry], output: Path | None, *, history: bool = False
) -> None:
    """A row per trial."""
    from ttools.tuner.report.frames import trial_frame

    write_text(trial_frame(entries, history=history).to_csv(index=False), output)


def write_as_html(entries: Sequence[TuningEntry], output: Path | None) -> None:
    """A page that needs no network."""
    from ttools.tuner.report.html import write_page

    write_text(write_page(entries, "Tunings"), output)


def write_as_lock(entries: Sequence[TuningEntry], output: Path | None) -> None:
    """The winners, as `--locked` reads them."""
    from ttools.tuner.store.lock import lock_of, lock_text

    write_text(lock_text(lock_of(entries)), output)


def _table(entry: TuningEntry) -> Table:
    problem = entry.problem
    state = "" if entry.complete else ", interrupted"
    tried = counted(len(entry.trials), "configuration")
    table = Table(
        title=escape(f"{problem} ({tried} tried{state})"),
        title_justify="left",
        caption=escape(f"{problem.device}; {problem.versions}"),
        caption_justify="left",
    )
    table.add_column("")
    table.add_column("config", overflow="fold")
    compiled = any(trial.resources for trial in entry.trials)
    for name in _COMPILED if compiled else _TIMED:
        table.add_column(name, justify="right")
    table.add_column("cannot win because", overflow="fold")
    least = min((cost for t in entry.trials if (cost := t.cost) is not None), default=None)
    for trial in sorted(entry.trials, key=lambda t: (t.cost is None, t.cost or 0.0)):
        table.add_row(*_row(entry, trial, least, _static(trial) if compiled else None))
    return table


_TIMED = ("median", "95% within", "alternating", "ratio")
_COMPILED = ("predicted", "ratio", "registers", "spilled", "shared", "occupancy")


def _static(trial: Trial) -> tuple[str, ...]:
    own = trial.resources
    if own is None:
        return ("",) * 4
    share = own["occupancy"]
    return (
        str(own["registers"]),
        f"{own['spilled']:,} B",
        f"{own['shared']:,} B",
        "" if share is None else f"{share:.0%}",
    )


def _row(
    entry: TuningEntry, trial: Trial, least: float | None, static: tuple[str, ...] | None
) -> tuple[str, ...]:
    final = entry.final.get(trial.key)
    return (
        "winner" if trial.key == entry.winner else "",
        escape(config_text(trial.values)),
        "" if trial.cost is None else seconds(trial.cost),
        *(() if static else (_interval(trial), seconds(statistics.median(final)) if final else "")),
        f"{trial.cost / least:.2f}" if trial.cost is not None and least else "",
        *(static or ()),
        escape(f"{trial.status.replace('_', ' ')}: {trial.reason}" if trial.reason else ""),
    )


def _interval(trial: Trial) -> str:
    """The uncertainty of the reported median, in percent."""
    if trial.interval is None or not trial.seconds:
        return ""
    low, high = trial.interval
    return f"{low / trial.seconds - 1:+.1%} {high / trial.seconds - 1:+.1%}"


def _plain(entry: TuningEntry) -> dict[str, Any]:
    problem, where = entry.problem, entry.location
    winner = next((dict(t.values) for t in entry.trials if t.key == entry.winner), None)
    return {
        "kernel": problem.kernel,
        "location": where and {"file": where[0], "line": where[1]},
        "key": problem.key_values,
        "device": problem.device,
        "versions": problem.versions,
        "source": problem.source,
        "complete": entry.complete,
        "winner": winner,
        "trials": [_trial(entry, trial) for trial in entry.trials],
    }


def _trial(entry: TuningEntry, trial: Trial) -> dict[str, Any]:
    return {
        "config": dict(trial.values),
        "status": trial.status,
        "reason": trial.reason,
        "seconds": trial.seconds,
        "interval": trial.interval,
        "samples": list(trial.samples),
        "final_samples": entry.final.get(trial.key, []),
        "predicted": trial.predicted,
        "resources": trial.resources,
        "checks": trial.checks,
        "conditions": trial.conditions,
    }
