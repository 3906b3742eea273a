"""Compares profiles, and reports the kernels that became slower or faster.

Kernels are matched by enclosing scopes, name and configuration. Each side may have several
profiles. The verdict on a kernel follows from a confidence interval of the ratio of its times, see
`intervals`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from ttools.core.errors import UsageError
from ttools.core.json_document import Amount, read_json_document
from ttools.profiler.intervals import BETWEEN_RUNS, difference

SCHEMA = "ttools.profile/1"
#: The line number of a function on Python's stack; it changes when the program is edited.
_PLACE = re.compile(r"(?<=\.py):\d+(?=\)$)")

#: Scopes from the outermost, kernel and configuration.
Key: TypeAlias = tuple[tuple[str, ...], str, str]
#: Seconds of launches by kernel and run.
Runs: TypeAlias = Mapping[Key, Sequence[Sequence[float]]]
Verdict = Literal["slower", "faster", "same", "inconclusive", "new", "removed", "too few launches"]


@dataclass(frozen=True, kw_only=True)
class Change:
    """The comparison of a kernel on two sides.

    Attributes:
        scope: Scopes around its launches, from the outermost; empty if there are none.
        config: Configuration of the autotuner, as text; empty without one.
        base_s: Median seconds of a launch on the first side; None if the kernel was not launched
            there.
        new_s: Median seconds of a launch on the second side; None if the kernel was not launched
            there.
        base_runs: Number of profiles of the first side that launch the kernel.
        new_runs: Number of profiles of the second side that launch the kernel.
        ratio: Typical time on the second side, divided by the typical time on the first side.
        low: Lower end of the ratio's interval.
        high: Upper end of the ratio's interval.
        verdict: `slower` or `faster` if the interval excludes equal times and reaches the
            threshold, `same` if the interval is within the threshold, otherwise `inconclusive`.
    """

    scope: tuple[str, ...]
    kernel: str
    config: str
    base_s: float | None
    new_s: float | None
    base_runs: int = 0
    new_runs: int = 0
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class Times:
    """The launches of a profile.

    Attributes:
        seconds: Time of each launch, by scopes, kernel and configuration.
        scoped: True if the profile has scopes.
        timed_on: `CPU` or `GPU`; None if the profile does not say.
    """

    seconds: Mapping[Key, list[float]]
    scoped: bool
    timed_on: str | None = None

    def without_scopes(self) -> Mapping[Key, list[float]]:
        """Return the times by kernel and configuration alone."""
        times: dict[Key, list[float]] = {}
        for (_, kernel, config), seconds in self.seconds.items():
            times.setdefault(((), kernel, config), []).extend(seconds)
        return times


@dataclass(frozen=True)
class _Scope:
    scope: list[str]
    seconds: list[Amount]


@dataclass(frozen=True)
class _Kernel:
    kernel: str
    config: Any
    seconds: list[Amount]
    scopes: list[_Scope] | None = None


@dataclass(frozen=True)
class _Profile:
    kernels: list[_Kernel]
    timed_on: str | None = None


def read_profile(path: Path) -> Times:
    """Return the times of the launches in a JSON profile.

    Raises:
        UsageError: The file cannot be read or is not a profile.
    """
    profile = read_json_document(
        path,
        SCHEMA,
        "profile",
        _Profile,
        advice="write it with `ttools profile --format json --output FILE`",
    )
    times: dict[Key, list[float]] = {}
    scoped = all(row.scopes is not None for row in profile.kernels)
    for row in profile.kernels:
        for scope in (scoped and row.scopes) or [_Scope([], row.seconds)]:
            key = tuple(_PLACE.sub("", name) for name in scope.scope), row.kernel, str(row.config)
            times.setdefault(key, []).extend(scope.seconds)
    return Times(seconds=times, scoped=scoped, timed_on=profile.timed_on)


def compare_profiles(
    base: Sequence[Times], new: Sequence[Times], threshold: float, *, scopes: bool = True
) -> list[Change]:
    """Compare each kernel of two sides, see `compare`.

    Args:
        base: Profiles of the first side.
        new: Profiles of the second side.
        threshold: Relative change of time that matters, such as 0.05; see `compare`.
        scopes: If True, launches in different scopes are compared separately, unless a profile has
            no scopes.

    Raises:
        UsageError: Some profiles were timed on a GPU, others on the CPU.
    """
    places = {profile.timed_on or "GPU" for profile in (*base, *new)}
    if len(places) > 1:
        raise UsageError(
            "some of these profiles were timed on the CPU, others on a GPU; compare profiles that "
            "were timed on the same device"
        )
    by_scope = scopes and all(profile.scoped for profile in (*base, *new))
    before, after = (
        _joined([profile.seconds if by_scope else profile.without_scopes() for profile in side])
        for side in (base, new)
    )
    return compare(before, after, threshold, on_cpu="CPU" in places)


def _joined(runs: Sequence[Mapping[Key, list[float]]]) -> dict[Key, list[list[float]]]:
    joined: dict[Key, list[list[float]]] = {}
    for run in runs:
        for key, seconds in run.items():
            joined.setdefault(key, []).append(seconds)
    return joined


def compare(base: Runs, new: Runs, threshold: float, *, on_cpu: bool = False) -> list[Change]:
    """Compare each kernel of two sides, in the order of the first side.

    Args:
        base: Launch times of the first side in seconds, by run.
        new: Launch times of the second side in seconds, by run.
        threshold: Relative change of time that matters; see `intervals.verdict`.
        on_cpu: True if times are from the CPU, which other programs share.
    """
    both = sum(key in new for key in base)
    alone, several = BETWEEN_RUNS["CPU" if on_cpu else "GPU"]
    changes = []
    for key in {**base, **new}:
        sides = [[run for run in side.get(key, ()) if len(run)] for side in (base, new)]
        factor = alone if max(len(side) for side in sides) == 1 else several
        changes.append(_change(key, sides[0], sides[1], threshold, both, factor))
    return changes


def _change(
    key: Key,
    base: Sequence[Sequence[float]],
    new: Sequence[Sequence[float]],
    threshold: float,
    comparisons: int,
    factor: float,
) -> Change:
    scope, kernel, config = key
    base_s, new_s = (float(np.median(np.concatenate(s))) if s else None for s in (base, new))
    change = Change(
        scope=scope,
        kernel=kernel,
        config=config,
        base_s=base_s,
        new_s=new_s,
        base_runs=len(base),
        new_runs=len(new),
        verdict="new" if base_s is None else "removed",
    )
    if base_s is None or new_s is None:
        return change
    if min(map(min, (*base, *new))) <= 0:  # the clock is too coarse for this kernel
        return replace(change, verdict="inconclusive")
    measured = difference(base, new, threshold, comparisons=comparisons, factor=factor)
    return replace(
        change,
        ratio=measured.ratio,
        low=measured.low,
        high=measured.high,
        verdict=measured.verdict or "too few launches",
    )
