"""Tunings as pandas frames. Must not know how they are shown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ttools.tuner.store import Entry
from ttools.tuner.trial import Trial

if TYPE_CHECKING:
    import pandas as pd

#: Columns of every trial; those of the key and of the configuration's parameters follow.
COLUMNS = (
    *("kernel", "device", "versions", "source", "winner", "status", "reason", "seconds"),
    *("best", "samples", "final_seconds", "predicted"),
)


def trial_frame(entries: Iterable[Entry]) -> pd.DataFrame:
    """A row per trial.

    Returns:
        The columns of `COLUMNS` (times in seconds; `seconds` is the median and `best` the least of
        `samples` runs, `final_seconds` the median of the comparison in turns), then `key.NAME` for
        each part of the tuning key and `config.NAME` for each parameter of the configuration.
    """
    import pandas as pd

    rows = list(_rows(entries))
    names = dict.fromkeys([*COLUMNS, *(name for row in rows for name in row)])
    return pd.DataFrame(rows, columns=list(names))


def _rows(entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    for entry in entries:
        for trial in entry.trials:
            yield {**_fixed(entry, trial), **_named(entry, trial)}


def _fixed(entry: Entry, trial: Trial) -> dict[str, Any]:
    final = entry.final.get(trial.key)
    return {
        "kernel": entry.problem.kernel,
        "device": entry.problem.device,
        "versions": entry.problem.versions,
        "source": entry.problem.source,
        "winner": trial.key == entry.winner,
        "status": trial.status,
        "reason": trial.reason,
        "seconds": trial.seconds,
        "best": min(trial.samples, default=None),
        "samples": len(trial.samples),
        "final_seconds": statistics.median(final) if final else None,
        "predicted": trial.predicted,
    }


def _named(entry: Entry, trial: Trial) -> dict[str, Any]:
    key = {f"key.{name}": value for name, value in entry.problem.key_values.items()}
    key["key.dtypes"] = " ".join(key["key.dtypes"])
    return {**key, **{f"config.{name}": value for name, value in trial.values.items()}}
