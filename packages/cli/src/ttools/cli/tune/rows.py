"""What is shown of each configuration that was tried: which ones, in which columns.

Owns units, rounding and what is left out. What the numbers mean is `ttools.tuner`'s to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ttools.cli.blocks import MOST_SHOWN
from ttools.core.reports.numbers import amount, seconds
from ttools.core.reports.report import config_text, counted

if TYPE_CHECKING:
    from ttools.tuner.measure.trial import Trial
    from ttools.tuner.store.store import TuningEntry

#: Columns of configurations that can win, beside the configuration: timed ones, compiled ones.
TIMED = ("median", "95% within", "timed", "ratio")
TIMED_ON_GPU = (*TIMED, "registers", "spilled")
COMPILED = ("predicted", "ratio", "registers", "spilled", "shared", "occupancy")


@dataclass(frozen=True)
class Shown:
    """What is shown of a tuning."""

    entry: TuningEntry

    @cached_property
    def _ranked(self) -> list[Trial]:
        from ttools.tuner.store.ranking import ranked

        return ranked(self.entry)

    def _estimate(self, trial: Trial) -> float | None:
        from ttools.tuner.store.ranking import estimate

        return estimate(self.entry, trial)

    @cached_property
    def _same(self) -> list[Trial]:
        """What makes the same launch as another one."""
        winner = self.entry.winner
        return [t for t in self._ranked if t.same_as and t.status == "ok" and t.key != winner]

    @cached_property
    def _able(self) -> list[Trial]:
        same = {trial.key for trial in self._same}
        return [t for t in self._ranked if self._estimate(t) is not None and t.key not in same]

    @cached_property
    def _unable(self) -> list[Trial]:
        return [trial for trial in self._ranked if self._estimate(trial) is None]

    @cached_property
    def common(self) -> Mapping[str, Any]:
        """Parameters that are the same in all configurations; none of a single one."""
        every = [trial.values for trial in self.entry.trials]
        first = every[0] if len(every) > 1 else {}
        return {
            name: value
            for name, value in first.items()
            if all(name in each and each[name] == value for each in every)
        }

    @property
    def columns(self) -> tuple[str, ...]:
        """Of the configurations that can win."""
        trials = self.entry.trials
        if not any(trial.resources for trial in trials):
            return TIMED
        return TIMED_ON_GPU if any(trial.samples for trial in trials) else COMPILED

    def able(self) -> list[tuple[str, ...]]:
        """Whether it won, configuration and columns of the fastest configurations."""
        from ttools.tuner.store.ranking import winning_trial

        best = winning_trial(self.entry)
        least = None if best is None else self._estimate(best)
        return [self._row(trial, least) for trial in self._able[:MOST_SHOWN]]

    def unable(self) -> list[tuple[str, str]]:
        """Configuration and reason of those that cannot win."""
        return [(self.config(trial), _why_not(trial)) for trial in self._unable[:MOST_SHOWN]]

    def config(self, trial: Trial) -> str:
        """What tells a configuration from the others."""
        own = {name: v for name, v in trial.values.items() if name not in self.common}
        return config_text(own or trial.values)

    def left_out(self) -> str:
        """What is not shown, and what does; empty where all is."""
        slower, unable = len(self._able) - MOST_SHOWN, len(self._unable) - MOST_SHOWN
        parts = [f"{slower:,} slower"] if slower > 0 else []
        parts += [f"{unable:,} more that cannot win"] if unable > 0 else []
        same = len(self._same)
        parts += [f"{same:,} that make the same launch as another"] if same else []
        return f"{' and '.join(parts)} left out; `ttools tune export` has all" if parts else ""

    def counts(self) -> str:
        """`12 configurations, 3 of them cannot win`."""
        state = "" if self.entry.complete else ", interrupted"
        n, unable = len(self.entry.trials), len(self._unable)
        cannot = f", {unable:,} of them cannot win" if unable else ""
        return f"{counted(n, 'configuration')}{state}{cannot}"

    def _row(self, trial: Trial, least: float | None) -> tuple[str, ...]:
        own = self._estimate(trial)
        ratio = f"{own / least:.2f}" if own is not None and least else ""
        time = "" if own is None else seconds(own)
        head = "winner" if trial.key == self.entry.winner else "", self.config(trial)
        if self.columns == COMPILED:
            return *head, time, ratio, *_static(trial)
        in_turns = trial.key in self.entry.final
        timed = "" if not trial.samples else "in turns" if in_turns else "alone"
        shown = *head, time, self._interval(trial), timed, ratio
        return shown if self.columns == TIMED else (*shown, *_static(trial)[:2])

    def _interval(self, trial: Trial) -> str:
        """The uncertainty of the reported median, in percent."""
        from ttools.tuner.measure.confidence import median_interval
        from ttools.tuner.store.ranking import samples

        interval, own = median_interval(samples(self.entry, trial)), self._estimate(trial)
        if interval is None or not own:
            return ""
        return " ".join(f"{end / own - 1:+.1%}" for end in interval)


def _why_not(trial: Trial) -> str:
    return f"{trial.status.replace('_', ' ')}: {trial.reason}" if trial.reason else trial.status


def _static(trial: Trial) -> Sequence[str]:
    own = trial.resources
    if own is None:
        return ("",) * 4
    share = own["occupancy"]
    return (
        str(own["registers"]),
        amount(own["spilled"], "B") if own["spilled"] else "",
        amount(own["shared"], "B") if own["shared"] else "",
        "" if share is None else f"{share:.0%}",
    )
