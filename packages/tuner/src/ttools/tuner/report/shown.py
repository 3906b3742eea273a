"""Tunings as a notebook shows them: each problem's configurations by time, the winner marked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ttools.core.reports.report import config_text, counted
from ttools.core.reports.shown import Part, Table, Text, place_cells
from ttools.tuner.measure.trial import Trial
from ttools.tuner.report.html import duration, key_text

if TYPE_CHECKING:
    from ttools.tuner.store.store import TuningEntry

_COLUMNS = ("", "config", ">time", ">95% within", ">ratio", "cannot win because")


def shown_tuning(entry: TuningEntry, space: int, notes: Iterable[str]) -> Iterator[Part]:
    """Where the kernel is, its configurations, and what is to be said of the search.

    Args:
        entry: what came of the problem.
        space: how many candidates there are.
        notes: what the user should know.
    """
    where, source = place_cells(*(entry.location or ("", 0)))
    tried = counted(len(entry.trials), "configuration")
    title = f"{entry.problem.kernel} ({key_text(entry)}), {tried} of {space:,} tried"
    yield Text(f"{where}: {source}" if where else "")
    least = min((cost for each in entry.trials if (cost := each.cost) is not None), default=None)
    ordered = sorted(entry.trials, key=lambda each: (each.cost is None, each.cost or 0.0))
    yield Table(title, _COLUMNS, [_row(entry, trial, least) for trial in ordered])
    yield from map(Text, notes)


def _row(entry: TuningEntry, trial: Trial, least: float | None) -> tuple[str, ...]:
    interval = trial.interval
    reason = f"{trial.status.replace('_', ' ')}: {trial.reason}" if trial.reason else ""
    return (
        "winner" if trial.key == entry.winner else "",
        config_text(trial.values),
        "" if trial.cost is None else duration(trial.cost),
        "" if interval is None else " to ".join(map(duration, interval)),
        f"{trial.cost / least:.2f}" if trial.cost is not None and least else "",
        reason,
    )
