"""Tunings in a notebook: each problem's configurations by time, with the winner marked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ttools.core.reports.notebook import Part, Table, Text, place_cells
from ttools.core.reports.numbers import seconds, seconds_interval
from ttools.core.reports.report import config_text, counted
from ttools.tuner.measure.confidence import median_interval
from ttools.tuner.measure.trial import Trial
from ttools.tuner.report.html import key_text
from ttools.tuner.report.texts import mark
from ttools.tuner.store.failing import failure_conditions
from ttools.tuner.store.ranking import estimate, ranked, reason, samples, winning_trial

if TYPE_CHECKING:
    from ttools.tuner.store.store import TuningEntry

_COLUMNS = ("", "config", ">time", ">95% within", ">ratio", "cannot win because")


def shown_tuning(entry: TuningEntry, space: int, notes: Iterable[str]) -> Iterator[Part]:
    """Yield the parts of a notebook's output: location, configurations and notes on the search.

    Args:
        entry: Results of the problem.
        space: Number of candidates in the space.
        notes: Notes for the user.
    """
    where, source = place_cells(*(entry.location or ("", 0)))
    tried = counted(len(entry.trials), "configuration")
    title = f"{entry.problem.kernel} ({key_text(entry)}), {tried} of {space:,} tried"
    yield Text(f"{where}: {source}" if where else "")
    yield Table(title, _COLUMNS, [_row(entry, trial) for trial in ranked(entry)])
    if won := reason(entry):
        yield Text(f"the winner is {won}")
    yield from (Text(f"rejected: {condition}") for condition in failure_conditions(entry))
    yield from map(Text, notes)


def _row(entry: TuningEntry, trial: Trial) -> tuple[str, ...]:
    interval, own = median_interval(samples(entry, trial)), estimate(entry, trial)
    if interval is None and trial.projection is not None:
        interval = trial.projection["low"], trial.projection["high"]
    best = winning_trial(entry)
    least = estimate(entry, best) if best is not None else None
    why_not = f"{trial.status.replace('_', ' ')}: {trial.reason}" if trial.reason else ""
    return (
        mark(entry, trial),
        config_text(trial.values),
        "" if own is None else seconds(own),
        "" if interval is None else seconds_interval(*interval),
        f"{own / least:.2f}" if own is not None and least else "",
        why_not,
    )
