"""Tunings as pandas data frames."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ttools.tuner.measure.trial import Trial
from ttools.tuner.store.ranking import is_tied
from ttools.tuner.store.store import TuningEntry

if TYPE_CHECKING:
    import pandas as pd

#: Columns of every trial; those of the key and of the configuration's parameters follow.
COLUMNS = (
    *("kernel", "device", "versions", "source", "winner", "status", "reason", "seconds"),
    *("best", "samples", "low", "high", "final_seconds", "predicted", "same_as", "tried", "latest"),
    *("predicted_low", "predicted_high", "tied"),
)


def trial_frame(entries: Iterable[TuningEntry], *, history: bool = False) -> pd.DataFrame:
    """Return a data frame with one row per trial.

    Args:
        entries: Entries of a store or of a run.
        history: If True, superseded trials also have rows, which precede all other rows.

    Returns:
        The columns of `COLUMNS`, then `key.NAME` for each part of the tuning key, `config.NAME` for
        each parameter of the configuration, and `condition.NAME` for each value that the device
        reported. Times are in seconds. `seconds` is the median and `best` the minimum of `samples`
        runs; `low` and `high` are the 95% confidence interval of the median. `final_seconds` is the
        median in the comparison of finalists. `predicted` is the projected time, and
        `predicted_low` and `predicted_high` are its interval. `tied` marks configurations whose
        time differs from the winner's by no more than noise. `same_as` is the key of the
        configuration that makes the same launch and whose trial was copied.
    """
    import pandas as pd

    rows = list(_rows(entries, history))
    names = dict.fromkeys([*COLUMNS, *(name for row in rows for name in row)])
    return pd.DataFrame(rows, columns=list(names))


def _rows(entries: Iterable[TuningEntry], history: bool) -> Iterator[dict[str, Any]]:
    for entry in entries:
        for trial in entry.earlier if history else ():
            yield {**_fixed(entry, trial, False), **_named(entry, trial)}
        for trial in entry.trials:
            yield {**_fixed(entry, trial, True), **_named(entry, trial)}


def _fixed(entry: TuningEntry, trial: Trial, latest: bool) -> dict[str, Any]:
    final = entry.final.get(trial.key) if latest else None
    low, high = trial.interval or (None, None)
    return {
        "kernel": entry.problem.kernel,
        "device": entry.problem.device,
        "versions": entry.problem.versions,
        "source": entry.problem.source,
        "winner": latest and trial.key == entry.winner,
        "status": trial.status,
        "reason": trial.reason,
        "seconds": trial.seconds,
        "best": min(trial.samples, default=None),
        "samples": len(trial.samples),
        "low": low,
        "high": high,
        "final_seconds": statistics.median(final) if final else None,
        "predicted": trial.predicted,
        "same_as": trial.same_as,
        "tried": trial.tried,
        "latest": latest,
        "predicted_low": trial.projection["low"] if trial.projection else None,
        "predicted_high": trial.projection["high"] if trial.projection else None,
        "tied": latest and is_tied(entry, trial),
    }


def _named(entry: TuningEntry, trial: Trial) -> dict[str, Any]:
    key = {f"key.{name}": value for name, value in entry.problem.key_values.items()}
    key["key.dtypes"] = " ".join(key["key.dtypes"])
    conditions = {f"condition.{name}": value for name, value in (trial.conditions or {}).items()}
    return {
        **key,
        **{f"config.{name}": value for name, value in trial.values.items()},
        **conditions,
    }
