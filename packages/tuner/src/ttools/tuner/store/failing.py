"""Conditions on parameters that describe which configurations of a tuning fail.

A configuration that makes the same launch as an earlier one is left out, because it has the same
result. Configurations that were rejected for other reasons are left out, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ttools.core.separation import separating_condition
from ttools.tuner.measure.trial import Status, Trial
from ttools.tuner.store.store import TuningEntry

#: Verbs by the status of a trial. A killed process is missing, because it says nothing about its
#: configuration.
_VERBS: dict[Status, str] = {
    "over_limit": "exceeds a limit of the GPU",
    "failed": "fails",
    "defect": "has a defect",
    "wrong": "wrong",
    "crashed": "crashes",
    "timed_out": "exceeds the time limit",
}


@dataclass(frozen=True, kw_only=True)
class FailureCondition:
    """A condition that holds for all configurations with a status, and for none that can win.

    Attributes:
        status: Status of the trials.
        condition: The condition, such as `BLOCK_K > GROUP_SIZE (128)`.
        count: Number of configurations with this status.
    """

    status: Status
    condition: str
    count: int

    def __str__(self) -> str:
        return f"{_VERBS[self.status]} exactly where {self.condition}"


def failure_conditions(entry: TuningEntry) -> list[FailureCondition]:
    """Return a condition for each status for which a simple condition exists."""
    return failure_conditions_of(entry.trials, constants_of(entry))


def constants_of(entry: TuningEntry) -> dict[str, int]:
    """Return the integers with which a condition may compare parameters, by name."""
    key = {name: value for name, value in entry.problem.key_values.items() if type(value) is int}
    return {**entry.constants, **key}


def failure_conditions_of(
    trials: Sequence[Trial], constants: Mapping[str, int]
) -> list[FailureCondition]:
    """Return a condition for each status for which a simple condition exists.

    Args:
        trials: Trials of one launch.
        constants: Integer arguments of the launch, by name.
    """
    own = [trial for trial in trials if not trial.same_as]
    passing = [trial.values for trial in own if trial.status == "ok"]
    conditions = []
    for status in _VERBS:
        failing = [trial.values for trial in own if trial.status == status]
        condition = separating_condition(failing, passing, constants)
        if condition is not None:
            conditions.append(
                FailureCondition(status=status, condition=condition.text, count=len(failing))
            )
    return conditions
