"""The time that is reported for each configuration: the time by which the winner was chosen.

Finalists were timed alternately, and the times of this comparison decide between them; for other
configurations, the time of their own trial is reported. Tables, pages, rules and differences all
use these functions, so each of them ranks the winner first.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ttools.core.reports.report import counted
from ttools.tuner.measure.finalists import FINALIST_RATIO, TIE, compared
from ttools.tuner.measure.trial import LEAST_SECONDS, Trial
from ttools.tuner.store.store import TuningEntry

if TYPE_CHECKING:
    from ttools.profiler.intervals import Difference


def estimate(entry: TuningEntry, trial: Trial) -> float | None:
    """Return a configuration's measured or projected seconds; None if it cannot win."""
    cost, final = trial.cost, entry.final.get(trial.key)
    if cost is None or not final:
        return cost
    return max(statistics.median(final), LEAST_SECONDS)


def samples(entry: TuningEntry, trial: Trial) -> Sequence[float]:
    """Return the samples whose median is the estimated time; empty for a projection."""
    return entry.final.get(trial.key) or trial.samples


def ranked(entry: TuningEntry) -> list[Trial]:
    """Return the trials in order: the winner, the finalists by time, others by time, the rest."""

    def place(trial: Trial) -> tuple[bool, bool, bool, float]:
        seconds = estimate(entry, trial)
        late = trial.key not in entry.final
        return trial.key != entry.winner, seconds is None, late, seconds or 0.0

    return sorted(entry.trials, key=place)


def winning_trial(entry: TuningEntry) -> Trial | None:
    """Return the winner's trial, or None if there is no winner."""
    return next((trial for trial in entry.trials if trial.key == entry.winner), None)


def compared_with_winner(entry: TuningEntry, trial: Trial) -> Difference | None:
    """Compare a configuration's time with the winner's; None if either of them has no interval.

    Measured times are compared by the rule of `ttools profile compare`. Projected times differ if
    their intervals do not overlap.
    """
    best = winning_trial(entry)
    if best is None or best.key == trial.key:
        return None
    own, others = samples(entry, best), samples(entry, trial)
    if own and others:
        return compared(own, others, len(_rivals(entry, best)))
    if best.projection is None or trial.projection is None:
        return None
    from ttools.profiler.intervals import difference_of

    assert best.predicted is not None
    assert trial.predicted is not None
    first, second = best.projection, trial.projection
    low, high = second["low"] / first["high"], second["high"] / first["low"]
    return difference_of(trial.predicted / best.predicted, low, high, TIE)


def is_tied(entry: TuningEntry, trial: Trial) -> bool:
    """Return whether a configuration's time exceeds the winner's by no more than noise or `TIE`."""
    best = winning_trial(entry)
    own = None if best is None else estimate(entry, best)
    cost = estimate(entry, trial)
    if best is None or own is None or cost is None or trial.key == best.key:
        return False
    if cost <= own * (1 + TIE):
        return True
    ratio = compared_with_winner(entry, trial)
    return ratio is not None and ratio.verdict not in (None, "slower")


def _rivals(entry: TuningEntry, best: Trial) -> list[Trial]:
    """Return the other configurations that can win, except those with the same launch as `best`."""
    launch = best.same_as or best.key
    return [
        trial
        for trial in entry.trials
        if trial.key not in (best.key, launch)
        and trial.same_as != launch
        and estimate(entry, trial) is not None
    ]


def reason(entry: TuningEntry) -> str:
    """Explain why the winner won; empty if there is no winner."""
    best = winning_trial(entry)
    own = None if best is None else estimate(entry, best)
    if best is None or own is None:
        return ""
    rivals = {trial.key: estimate(entry, trial) or 0.0 for trial in _rivals(entry, best)}
    if not rivals:
        return "the only one that can win"
    projected = not best.samples and best.predicted is not None
    tied = [trial for trial in _rivals(entry, best) if is_tied(entry, trial)]
    if tied:
        whose = "the projection's" if projected else "the measurement's"
        least = min(own, *rivals.values())
        others = counted(len(tied), "other")
        return f"tied with {others} within {whose} uncertainty; {_chosen(entry, own, least, tied)}"
    among = {key: seconds for key, seconds in rivals.items() if key in entry.final} or rivals
    by = "by projected time" if projected else "measured"
    if among is not rivals:
        by = f"timed alternately with {counted(len(among), 'other')} close to it"
    nearest = next(t for t in entry.trials if t.key == min(among, key=lambda key: among[key]))
    ratio = compared_with_winner(entry, nearest)
    doubt = " (too few samples for an interval)" if ratio and ratio.verdict is None else ""
    return f"the fastest, {by}: the next one takes {among[nearest.key] / own - 1:.1%} longer{doubt}"


def _chosen(entry: TuningEntry, own: float, least: float, tied: Sequence[Trial]) -> str:
    """Explain the choice among configurations whose times are tied."""
    if len(entry.final) > 1:
        close = least * FINALIST_RATIO
        considered = all(
            trial.key in entry.final and (estimate(entry, trial) or 0.0) <= close for trial in tied
        )
        return "chosen for the fewest resources" + ("" if considered else " among the closest")
    if own == least:
        return "chosen for the shortest time"
    return f"chosen for the fewest resources among those within {TIE:.0%} of the shortest time"


def first_trial(entry: TuningEntry) -> Trial | None:
    """Return the trial of the first configuration of the list."""
    return next(iter(entry.trials), None)


def present_trial(entry: TuningEntry) -> Trial | None:
    """Return the trial of the configuration that is currently in use; None if it is unknown."""
    return next((t for t in entry.trials if t.key == entry.present), None)


def gain_over_first(entry: TuningEntry) -> float | None:
    """Return the winner's speed-up over the first configuration in the list."""
    return _gain_over(entry, first_trial(entry))


def gain_over_present(entry: TuningEntry) -> float | None:
    """Return the winner's speed-up over the configuration currently in use; None if unknown."""
    return _gain_over(entry, present_trial(entry))


def _gain_over(entry: TuningEntry, other: Trial | None) -> float | None:
    best = winning_trial(entry)
    if best is None or other is None:
        return None
    own, before = estimate(entry, best), estimate(entry, other)
    return before / own if own and before else None


#: Parameters of `triton.Config` that are not parameters of the kernel.
_LAUNCH = ("num_warps", "num_stages", "num_ctas", "maxnreg", "ir_override")


def config_source(values: Mapping[str, Any]) -> str:
    """Return a configuration as source, such as `triton.Config({'BLOCK': 64}, num_warps=4)`."""
    own = {name: value for name, value in values.items() if name not in _LAUNCH}
    options = [f"{name}={values[name]!r}" for name in _LAUNCH if name in values]
    return f"triton.Config({', '.join([repr(own), *options])})"
