"""Profiles as data for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ttools.profiler.metrics import finite
from ttools.profiler.report.advice import Hint
from ttools.profiler.report.analysis import ProfileAnalysis
from ttools.profiler.report.comparison import SCHEMA


def as_data(profiled: ProfileAnalysis, script: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a profile as data of the schema `ttools.profile/1`.

    Args:
        profiled: Analysis of a run.
        script: Name and exit status of the profiled program; None if there is no program.
    """
    seconds_of, scopes_of = profiled.seconds, _by_scope(profiled)
    return {
        "schema": SCHEMA,
        "script": script,
        "timed_on": profiled.timed_on.removeprefix("the "),
        "device": asdict(profiled.device) if profiled.device else None,
        "target": profiled.target.name if profiled.target else None,
        "kernels": [
            {
                **finite(row),
                "seconds": seconds_of.get((row["kernel"], row["config"]), []),
                "scopes": scopes_of.get((row["kernel"], row["config"]), []),
            }
            for row in profiled.frame.to_dict("records")
        ],
        "lines": finite(profiled.lines.to_dict("records")),
        "tree": profiled.tree.as_dict(),
        "forms": finite(profiled.signatures.to_dict("records")),
        "accesses": finite(profiled.accesses.to_dict("records")),
        "advice": [_hint(hint) for hint in profiled.advice],
        "compiled": [inspection.as_dict() for inspection in profiled.inspections],
        "trials": asdict(profiled.trials),
        "notes": dict(profiled.notes),
        "unseen": profiled.unseen,
        "compilations": profiled.compilations.as_dict() if profiled.compilations else None,
    }


def _by_scope(profiled: ProfileAnalysis) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the times of each kernel's launches by scope."""
    by_kernel: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for (scope, kernel, config), taken in profiled.seconds_by_scope.items():
        by_kernel.setdefault((kernel, config), []).append({"scope": list(scope), "seconds": taken})
    return by_kernel


def _hint(hint: Hint) -> dict[str, Any]:
    location = hint.location
    return {
        **vars(hint),
        "location": {"file": location.file, "line": location.line} if location else None,
    }
