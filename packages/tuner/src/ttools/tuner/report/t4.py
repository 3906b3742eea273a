"""Export of a tuning in the T4 format of auto-tuners, which the tools of Kernel Tuner read.

The schema: `results-schema.json` 1.0.0, branch T4 of https://github.com/odgaard/TuningSchema.
"""

from __future__ import annotations

from typing import Any

from ttools.tuner.measure.trial import Status, Trial
from ttools.tuner.store.ranking import estimate, samples
from ttools.tuner.store.store import TuningEntry

#: The schema's term for each status.
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
    """Return the results of one tuning; times are in milliseconds, as in Kernel Tuner."""
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
    result: dict[str, Any] = {
        "configuration": dict(trial.values),
        "times": {"runtimes": [seconds * 1e3 for seconds in samples(entry, trial)]},
        "invalidity": _INVALIDITY[trial.status],
        "correctness": 0 if trial.status in ("defect", "wrong") else 1,
        "measurements": time,
        "objectives": ["time"],
    }
    return {"timestamp": trial.tried, **result} if trial.tried else result
