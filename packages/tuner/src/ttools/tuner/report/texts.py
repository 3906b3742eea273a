"""Texts of a tuning that the console, pages and notebooks share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ttools.core.reports.numbers import seconds
from ttools.profiler.gpu_time.projection import projection_text
from ttools.tuner.measure.trial import Trial
from ttools.tuner.store.ranking import (
    compared_with_winner,
    config_source,
    first_trial,
    gain_over_first,
    gain_over_present,
    is_tied,
    present_trial,
    winning_trial,
)
from ttools.tuner.store.store import TuningEntry


def mark(entry: TuningEntry, trial: Trial) -> str:
    """Return `winner`, `tied` for a configuration that may be as fast, or an empty text."""
    if trial.key == entry.winner:
        return "winner"
    return "tied" if is_tied(entry, trial) else ""


def projected_text(trial: Trial, *, star: bool = True) -> str:
    """Return a projected time with its interval.

    Args:
        star: If True, a star marks a time that is less certain than usual; if False, the reasons
            are given.
    """
    own = trial.projection
    if own is None:
        return seconds(trial.predicted)
    outside = "; ".join(own["outside"])
    return projection_text(trial.predicted, own["low"], own["high"], outside, star=star)


def ratio_interval_text(entry: TuningEntry, trial: Trial) -> str:
    """Return the interval of the ratio of a configuration's time to the winner's time."""
    ratio = compared_with_winner(entry, trial)
    if ratio is None or ratio.low is None or ratio.high is None:
        return ""
    return f"{ratio.low:.2f} to {ratio.high:.2f}"


def winners_as_python(entries: Sequence[TuningEntry]) -> str:
    """Return a line of code for each winner, preceded by a comment with its gain."""
    lines = []
    for entry in entries:
        best = winning_trial(entry)
        if best is not None:
            comment = ", ".join([str(entry.problem), *gains(entry)])
            lines.append(f"# {comment}\n{config_source(best.values)}\n")
    return "".join(lines)


def gains(entry: TuningEntry) -> Iterator[str]:
    """Yield how the winner compares with the first and with the present configuration."""
    first, present = first_trial(entry), present_trial(entry)
    if first is not None and first.key == entry.winner and len(entry.trials) > 1:
        yield "the first configuration"
    elif first is not None and (gain := gain_over_first(entry)):
        yield _gain(entry, first, gain, "first")
    if entry.present is None:
        return
    if entry.present == entry.winner:
        yield "equal to the present configuration"
    elif present is not None and (gain := gain_over_present(entry)):
        yield _gain(entry, present, gain, "present")
    else:
        yield "the present configuration was not timed"


def _gain(entry: TuningEntry, other: Trial, gain: float, which: str) -> str:
    if is_tied(entry, other):
        return f"tied with the {which} configuration"
    return f"{gain:.2f} times as fast as the {which} configuration"
