"""A tuning in the T4 format of auto-tuners, for the tools of Kernel Tuner.

The schema: `results-schema.json` 1.0.0, branch T4 of https://github.com/odgaard/TuningSchema.
"""

from __future__ import annotations

from typing import Any

from ttools.tuner.measure.trial import Status, Trial
from ttools.tuner.store.ranking import estimate, samples
from ttools.tuner.store.store import TuningEntry

#: Whether and why a configuration cannot win, in the words of the schema.
_INVALIDITY: dict[Status, str] = {
    "ok": "correct",
    "over_limit": "constraints",
    "failed": "compile",
    "defect": "correctness",
    "wrong": "correctness",
    "crashed": "runtime",
    "killed": "runtime",
    "timed_out": "timeout",
}


def t4_of(entry: TuningEntry) -> dict[str, Any]:
    """The results of one tuning; times are in milliseconds, as Kernel Tuner has them."""
    problem = entry.problem
    return {
        "schema_version": "1.0.0",
        "metadata": {
            "timeunit": "milliseconds",
            "kernel": problem.kernel,
            "key": problem.key_values,
            "device": problem.device,
            "versions": problem.versions,
        },
        "results": [_result(entry, trial) for trial in entry.trials],
    }


def _result(entry: TuningEntry, trial: Trial) -> dict[str, Any]:
    cost = estimate(entry, trial)
    time = [] if cost is None else [{"name": "time", "value": cost * 1e3, "unit": "ms"}]
    found: dict[str, Any] = {
        "configuration": dict(trial.values),
        "times": {"runtimes": [each * 1e3 for each in samples(entry, trial)]},
        "invalidity": _INVALIDITY[trial.status],
        "correctness": 0 if trial.status in ("defect", "wrong") else 1,
        "measurements": time,
        "objectives": ["time"],
    }
    return {"timestamp": trial.tried, **found} if trial.tried else found
