"""Converts a profile to a trace in Chrome's format, for Perfetto and `chrome://tracing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ttools.core.reports.report import config_text
from ttools.profiler.report.call_tree import work_of
from ttools.profiler.run.session import Sample


def chrome_trace(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return a trace with an event per launch, on a track per thread or stream, in microseconds.

    Launches that were timed together are left out, because their single times are unknown.
    """
    timed = [sample for sample in samples if sample.launches == 1]
    lanes = list(dict.fromkeys(sample.lane for sample in timed))
    named = [
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": n, "args": {"name": lane or "kernels"}}
        for n, lane in enumerate(lanes)
    ]
    events = [
        {
            "ph": "X",
            "cat": sample.kind,
            "name": sample.kernel,
            "pid": 0,
            "tid": lanes.index(sample.lane),
            "ts": sample.begin * 1e6,
            "dur": sample.seconds * 1e6,
            "args": _arguments(sample),
        }
        for sample in timed
    ]
    return {"displayTimeUnit": "ns", "traceEvents": [*named, *events]}


def _arguments(sample: Sample) -> Mapping[str, Any]:
    flops, moved = work_of(sample)
    details = {
        "grid": list(sample.grid),
        "config": config_text(sample.config),
        "call_stack": list(sample.stack),
        "flops": flops,
        "bytes": moved,
    }
    return {name: value for name, value in details.items() if value not in (None, [], "")}
