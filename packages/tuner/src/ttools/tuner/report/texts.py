"""Texts of a tuning that the console, pages and notebooks share."""

from __future__ import annotations

from ttools.core.reports.numbers import seconds
from ttools.profiler.gpu_time.projection import projection_text
from ttools.tuner.measure.trial import Trial
from ttools.tuner.store.ranking import compared_with_winner, is_tied
from ttools.tuner.store.store import TuningEntry


def mark(entry: TuningEntry, trial: Trial) -> str:
    """Return `winner`, `tied` for a configuration that may be as fast, or nothing."""
    if trial.key == entry.winner:
        return "winner"
    return "tied" if is_tied(entry, trial) else ""


def projected_text(trial: Trial, *, star: bool = True) -> str:
    """Return a projected time with its interval.

    Args:
        star: If True, a star marks a time that is less certain; if False, the reasons are given.
    """
    own = trial.projection
    if own is None:
        return seconds(trial.predicted)
    outside = "; ".join(own["outside"])
    return projection_text(trial.predicted, own["low"], own["high"], outside, star=star)


def ratio_interval_text(entry: TuningEntry, trial: Trial) -> str:
    """Return the interval of the ratio of a configuration's time to the winner's."""
    ratio = compared_with_winner(entry, trial)
    if ratio is None or ratio.low is None or ratio.high is None:
        return ""
    return f"{ratio.low:.2f} to {ratio.high:.2f}"
