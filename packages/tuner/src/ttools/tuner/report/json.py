"""Tunings as data for JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ttools.tuner.measure.trial import Trial
from ttools.tuner.report.importances import importances
from ttools.tuner.store.bit_equality import bit_equality, timed_classes
from ttools.tuner.store.failing import failure_conditions
from ttools.tuner.store.ranking import (
    compared_with_winner,
    estimate,
    gain_over_first,
    gain_over_present,
    is_tied,
    reason,
)
from ttools.tuner.store.store import TuningEntry


def as_data(
    entries: Sequence[TuningEntry],
    *,
    script: Mapping[str, Any] | None = None,
    run: Mapping[str, Mapping[str, Any]] | None = None,
    notes: Sequence[str] = (),
    importance: bool = False,
) -> dict[str, Any]:
    """Return tunings as data of the schema `ttools.tune/1`; times are in seconds.

    Args:
        entries: Tunings of a store or a run.
        script: Name and exit status of the program; None if there is no program.
        run: Further fields for each problem, by the problem's text.
        notes: Notes for the user.
        importance: If True, the importance of parameters is added; computing it takes a second.
    """
    data: dict[str, Any] = {
        "schema": "ttools.tune/1",
        "script": script,
        "problems": [_plain(entry) for entry in entries],
        "notes": list(notes),
    }
    for row, entry in zip(data["problems"], entries, strict=True):
        if run is not None:
            row |= run[str(entry.problem)]
        if importance:
            parameter_importance = importances(entry)
            row["importance"] = parameter_importance and asdict(parameter_importance)
    return data


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
        "reason": reason(entry),
        "tied": [dict(trial.values) for trial in entry.trials if is_tied(entry, trial)],
        "bit_equality": bit_equality(entry),
        "bit_classes": _bit_classes(entry),
        "failure_conditions": [asdict(condition) for condition in failure_conditions(entry)],
        "gain_over_first": gain_over_first(entry),
        "present": json.loads(entry.present) if entry.present else None,
        "gain_over_present": gain_over_present(entry),
        "trials": [_trial(entry, trial) for trial in entry.trials],
    }


def _bit_classes(entry: TuningEntry) -> dict[str, Any] | None:
    classes = entry.bit_classes
    if classes is None:
        return None
    return {
        "gpu": classes.target,
        "classes": [asdict(one) for one in timed_classes(entry)],
        "unknown": [
            {"config": json.loads(key), "reason": reason} for key, reason in classes.unknown.items()
        ],
    }


def _trial(entry: TuningEntry, trial: Trial) -> dict[str, Any]:
    ratio, own = compared_with_winner(entry, trial), trial.projection
    return {
        "config": dict(trial.values),
        "status": trial.status,
        "reason": trial.reason,
        "estimate": estimate(entry, trial),
        "seconds": trial.seconds,
        "interval": trial.interval,
        "samples": list(trial.samples),
        "final_samples": entry.final.get(trial.key, []),
        "predicted": trial.predicted,
        "predicted_interval": [own["low"], own["high"]] if own else None,
        "less_certain": own["outside"] if own else [],
        "tied": is_tied(entry, trial),
        "bit_equal": trial.bit_equal,
        "ratio_interval": [ratio.low, ratio.high] if ratio and ratio.low is not None else None,
        "resources": trial.resources,
        "checks": trial.checks,
        "conditions": trial.conditions,
        "same_as": json.loads(trial.same_as) if trial.same_as else None,
    }
