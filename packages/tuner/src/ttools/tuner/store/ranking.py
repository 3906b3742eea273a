"""The time that is reported for each configuration: the one by which the winner was chosen.

Finalists were timed alternately, and those times decide between them; other configurations have the
time of their own trial. Tables, pages, rules and differences all use these functions, so that each
of them ranks the winner first.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from ttools.core.reports.report import counted
from ttools.tuner.measure.finalists import TIE
from ttools.tuner.measure.trial import LEAST_SECONDS, Trial
from ttools.tuner.store.store import TuningEntry


def estimate(entry: TuningEntry, trial: Trial) -> float | None:
    """Return a configuration's seconds, measured or predicted; None if it cannot win."""
    cost, final = trial.cost, entry.final.get(trial.key)
    if cost is None or not final:
        return cost
    return max(statistics.median(final), LEAST_SECONDS)


def samples(entry: TuningEntry, trial: Trial) -> Sequence[float]:
    """Return the samples whose median is the estimate; empty for a prediction."""
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


def reason(entry: TuningEntry) -> str:
    """Explain why the winner won; empty if there is none."""
    best = winning_trial(entry)
    own = None if best is None else estimate(entry, best)
    if best is None or own is None:
        return ""
    by = "by prediction" if not best.samples and best.predicted is not None else "measured"
    among = [t for t in entry.trials if t.key in entry.final] if len(entry.final) > 1 else []
    if among:
        by = f"timed alternately with {counted(len(among) - 1, 'other')} close to it"
    rivals = [
        seconds
        for trial in among or entry.trials
        if trial.key != best.key and (seconds := estimate(entry, trial)) is not None
    ]
    if not rivals:
        return "the only one that can win"
    least = min(rivals)
    if own <= least / (1 + TIE):
        return f"the fastest, {by}: the next one takes {least / own - 1:.1%} longer"
    if by == "by prediction":
        return "the fastest, by prediction"
    return f"as fast as any other, {by}, and of these the one that uses least resources"


def gain_over_first(entry: TuningEntry) -> float | None:
    """Return the speed-up of the winner over the first configuration of the list."""
    return _gain_over(entry, next(iter(entry.trials), None))


def gain_over_present(entry: TuningEntry) -> float | None:
    """Return the speed-up of the winner over the configuration now in use; None if unknown."""
    return _gain_over(entry, next((t for t in entry.trials if t.key == entry.present), None))


def _gain_over(entry: TuningEntry, other: Trial | None) -> float | None:
    best = winning_trial(entry)
    if best is None or other is None:
        return None
    own, before = estimate(entry, best), estimate(entry, other)
    return before / own if own and before else None


#: Parameters of `triton.Config` other than the kernel's own.
_LAUNCH = ("num_warps", "num_stages", "num_ctas", "maxnreg", "ir_override")


def config_source(values: Mapping[str, Any]) -> str:
    """Return a configuration as Python source: `triton.Config({'BLOCK': 64}, num_warps=4)`."""
    own = {name: value for name, value in values.items() if name not in _LAUNCH}
    options = [f"{name}={values[name]!r}" for name in _LAUNCH if name in values]
    return f"triton.Config({', '.join([repr(own), *options])})"
