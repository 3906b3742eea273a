"""Tunings in the T4 format satisfy its schema."""

from __future__ import annotations

import json

from jsonschema import Draft202012Validator

from ttools.tuner.measure.trial import Status, Trial
from ttools.tuner.report.t4 import t4_of
from ttools.tuner.store.problem import Problem
from ttools.tuner.store.store import TuningEntry

#: Requirements of the published schema, version 1.0.0.
_MEASUREMENT = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "value": {"type": ["number", "string", "array"]},
        "unit": {"type": "string"},
    },
}
_REASONS = ["timeout", "compile", "runtime", "correctness", "constraints", "correct"]
_RESULT = {
    "type": "object",
    "required": ["configuration", "times", "invalidity", "correctness"],
    "properties": {
        "timestamp": {"type": "string"},
        "configuration": {"type": "object"},
        "objectives": {"type": "array"},
        "times": {"type": "object", "properties": {"runtimes": {"type": "array"}}},
        "invalidity": {"enum": _REASONS},
        "correctness": {"type": "number"},
        "measurements": {"type": "array", "items": _MEASUREMENT},
    },
}
SCHEMA = {
    "type": "object",
    "properties": {
        "schema_version": {"type": "string", "pattern": r"^[0-9]{1,}.[0-9]{1,}.[0-9]{1,}$"},
        "results": {"type": "array", "items": _RESULT},
    },
}
STATUSES: dict[Status, tuple[str, int]] = {
    "ok": ("correct", 1),
    "over_limit": ("constraints", 1),
    "failed": ("compile", 1),
    "defect": ("correctness", 0),
    "wrong": ("correctness", 0),
    "crashed": ("runtime", 1),
    "timed_out": ("timeout", 1),
    "killed": ("runtime", 1),
}


def test_every_status_has_a_word_of_the_schema() -> None:
    trials = [
        Trial(
            values={"BLOCK": 64 << place, "ORDER": "row"},
            status=status,
            samples=(1e-6, 2e-6, 3e-6) if status == "ok" else (),
            tried="2026-01-02T03:04:05+00:00" if status == "ok" else "",
        )
        for place, status in enumerate(STATUSES)
    ]
    key = json.dumps({"n": 5, "dtypes": ["float32"]})
    problem = Problem(kernel="k", source="", key=key, device="gpu", versions="triton 3.9.0")
    document = t4_of(TuningEntry(problem=problem, trials=trials, winner=trials[0].key))
    Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(document)))
    verdicts = [(result["invalidity"], result["correctness"]) for result in document["results"]]
    assert verdicts == list(STATUSES.values())
    first, second = document["results"][:2]
    assert first["configuration"] == {"BLOCK": 64, "ORDER": "row"}
    assert first["times"]["runtimes"] == [1e-3, 2e-3, 3e-3]
    assert first["measurements"] == [{"name": "time", "value": 2e-3, "unit": "ms"}]
    assert first["timestamp"] == "2026-01-02T03:04:05+00:00"
    assert "timestamp" not in second
    assert second["measurements"] == []
    assert document["metadata"]["key"] == {"n": 5, "dtypes": ["float32"]}
