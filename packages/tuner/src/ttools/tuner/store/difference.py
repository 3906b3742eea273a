"""Changes between two stores: winners, their times, and which configurations can win."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ttools.tuner.measure.finalists import compared
from ttools.tuner.measure.trial import Trial
from ttools.tuner.store.ranking import estimate, samples, winning_trial
from ttools.tuner.store.store import TuningEntry


@dataclass(frozen=True, kw_only=True)
class TuningChange:
    """The difference between two stores for a kernel and key on a device.

    Attributes:
        key: Values of the tuning key, by name.
        device: The device for which the kernel was tuned.
        old: Values of the old winner; None if there was none.
        new: Values of the new winner; None if there is none.
        old_seconds: Median time of the old winner in the old store.
        new_seconds: Median time of the new winner in the new store.
        sure: True if the change exceeds noise, that is, if the new winner is slower or faster by
            the rule of `ttools profile compare`. The two stores count as different runs, whose
            conditions differ.
        statuses: Configurations whose status differs: values, old status, new status.
        source_changed: True if the kernel's source differs.
        versions: Old and new versions of Triton and ttools.
    """

    kernel: str
    key: Mapping[str, Any]
    device: str
    old: Mapping[str, Any] | None
    new: Mapping[str, Any] | None
    old_seconds: float | None
    new_seconds: float | None
    sure: bool
    statuses: Sequence[tuple[Mapping[str, Any], str, str]]
    source_changed: bool
    versions: tuple[str | None, str | None]

    @property
    def ratio(self) -> float | None:
        """The new time divided by the old time; None unless both are known."""
        if not self.old_seconds or self.new_seconds is None:
            return None
        return self.new_seconds / self.old_seconds

    @property
    def is_one(self) -> bool:
        return self.sure or self.old != self.new or bool(self.statuses)


def changes(old: Sequence[TuningEntry], new: Sequence[TuningEntry]) -> list[TuningChange]:
    """Return one change per kernel, key and device of either store, in the order of the new store.

    If a store has entries for several sources or versions, its latest entry is used.
    """
    before, after = _latest(old), _latest(new)
    return [_change(before.get(case), after.get(case)) for case in {**after, **before}]


def _latest(entries: Sequence[TuningEntry]) -> dict[tuple[str, str, str], TuningEntry]:
    return {(e.problem.kernel, e.problem.key, e.problem.device): e for e in entries}


def _change(old: TuningEntry | None, new: TuningEntry | None) -> TuningChange:
    entry = new or old
    assert entry is not None
    was, now = _winner(old), _winner(new)
    return TuningChange(
        kernel=entry.problem.kernel,
        key=entry.problem.key_values,
        device=entry.problem.device,
        old=None if was is None else dict(was.values),
        new=None if now is None else dict(now.values),
        old_seconds=None if was is None or old is None else estimate(old, was),
        new_seconds=None if now is None or new is None else estimate(new, now),
        sure=_apart(_samples(old, was), _samples(new, now), entry.problem.device),
        statuses=_statuses(old, new),
        source_changed=bool(old and new and old.problem.source != new.problem.source),
        versions=tuple(e.problem.versions if e else None for e in (old, new)),  # type: ignore[arg-type]
    )


def _winner(entry: TuningEntry | None) -> Trial | None:
    return None if entry is None else winning_trial(entry)


def _samples(entry: TuningEntry | None, winner: Trial | None) -> Sequence[float]:
    return samples(entry, winner) if entry is not None and winner is not None else ()


def _apart(old: Sequence[float], new: Sequence[float], device: str) -> bool:
    from ttools.profiler.intervals import BETWEEN_RUNS

    factor, _ = BETWEEN_RUNS["CPU" if device.startswith("cpu:") else "GPU"]
    return bool(old and new) and compared(old, new, 1, factor).verdict in ("slower", "faster")


def _statuses(
    old: TuningEntry | None, new: TuningEntry | None
) -> Sequence[tuple[Mapping[str, Any], str, str]]:
    if old is None or new is None:
        return ()
    before = {trial.key: trial for trial in old.trials}
    return [
        (dict(trial.values), before[trial.key].status, trial.status)
        for trial in new.trials
        if trial.key in before and before[trial.key].status != trial.status
    ]
