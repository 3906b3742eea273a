"""Costs of a kernel's configurations in tunings for other keys, nearest key first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from ttools.tuner.search.guided import Known
from ttools.tuner.store.problem import Problem
from ttools.tuner.store.ranking import estimate
from ttools.tuner.store.store import TuningEntry

#: If two values differ that are not positive numbers, such as dtypes, they count as this far apart.
_DIFFERENT = 4.0


def experience(problem: Problem, entries: Iterable[TuningEntry]) -> list[Known]:
    """Return the costs, by configuration, in each tuning of the same kernel on the same device.

    Args:
        entries: Entries of a store or of this run; if two entries have the same key, the last one
            is used.
    """
    costs_by_key: dict[str, tuple[float, Known]] = {}
    for entry in entries:
        other = entry.problem
        same = (other.kernel, other.source, other.device)
        if same != (problem.kernel, problem.source, problem.device) or other.key == problem.key:
            continue
        costs = {trial.key: estimate(entry, trial) for trial in entry.trials}
        if any(cost is not None for cost in costs.values()):
            costs_by_key[other.key] = distance(problem.key_values, other.key_values), costs
    return [costs for _, costs in sorted(costs_by_key.values(), key=lambda pair: pair[0])]


def distance(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Return the distance between two keys: the number of doublings, summed over their values."""
    return sum(_apart(one.get(name), other.get(name)) for name in {*one, *other})


def _apart(one: Any, other: Any) -> float:
    if one == other:
        return 0.0
    numbers = all(type(value) in (int, float) and value > 0 for value in (one, other))
    return abs(math.log2(one / other)) if numbers else _DIFFERENT
