"""Profiles beside each other: which kernels became slower, and how sure that is.

Kernels are matched by the scopes around them, name and configuration, each side may have several
profiles. What is said of a kernel follows from an interval of the ratio of its times (`intervals`),
so that noise is not taken for a change, nor a change for noise.
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
from ttools.profiler.report.intervals import ratio_interval

SCHEMA = "ttools.profile/1"
#: The probability that the intervals of all kernels hold their ratios.
LEVEL = 0.99
#: Of times, so that one of exactly 1 + threshold times another is recognised.
_ROUNDING = 1e-9
#: What two runs of one program may differ by beyond what their launches show, as a factor: of one
#: profile a side, and of several, whose own spread is known. That clocks of a GPU move by a
#: percent or two is assumed; a loop of arithmetic on a busy machine with two cores took 0.56 to 1.0
#: ms in six runs, 24% about their mean, and runs not made in turns differ by what else ran then.
_BETWEEN_RUNS = {"GPU": (1.02, 1.0), "CPU": (4.0, 1.1)}
#: Of a function in Python's stack: lines move when a program is edited.
_PLACE = re.compile(r"(?<=\.py):\d+(?=\)$)")

#: Scopes from the outermost, kernel and configuration.
Key: TypeAlias = tuple[tuple[str, ...], str, str]
#: Of each kernel, for each run the seconds of its launches.
Runs: TypeAlias = Mapping[Key, Sequence[Sequence[float]]]
Verdict = Literal["slower", "faster", "same", "inconclusive", "new", "removed", "too few launches"]


@dataclass(frozen=True, kw_only=True)
class Change:
    """A kernel on two sides.

    Attributes:
        scope: around its launches, from the outermost; empty also without scopes.
        config: of the autotuner.
        base_s: median seconds of a launch on the first side; None if it was not launched there.
        new_s: the same on the second.
        base_runs: profiles of the first side with launches of it.
        new_runs: the same of the second.
        ratio: of typical times, second to first.
        low: end of the ratio's interval.
        high: its other end.
        verdict: slower or faster where the interval excludes an equal time and reaches the
            threshold, same where it lies within the threshold, inconclusive elsewhere.
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
        seconds: of each launch.
        scoped: whether the profile has scopes.
        timed_on: `CPU` or `GPU`; None if the profile does not say.
    """

    seconds: Mapping[Key, list[float]]
    scoped: bool
    timed_on: str | None = None

    def without_scopes(self) -> Mapping[Key, list[float]]:
        """The same by kernel and configuration alone."""
        found: dict[Key, list[float]] = {}
        for (_, kernel, config), seconds in self.seconds.items():
            found.setdefault(((), kernel, config), []).extend(seconds)
        return found


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
    """Seconds of each launch, from a profile in JSON.

    Raises:
        UsageError: the file cannot be read or is no such profile.
    """
    profile = read_json_document(
        path,
        SCHEMA,
        "profile",
        _Profile,
        advice="write it with `ttools profile --format json --output FILE`",
    )
    found: dict[Key, list[float]] = {}
    scoped = all(row.scopes is not None for row in profile.kernels)
    for row in profile.kernels:
        for each in (scoped and row.scopes) or [_Scope([], row.seconds)]:
            key = tuple(_PLACE.sub("", name) for name in each.scope), row.kernel, str(row.config)
            found.setdefault(key, []).extend(each.seconds)
    return Times(seconds=found, scoped=scoped, timed_on=profile.timed_on)


def compare_profiles(
    base: Sequence[Times], new: Sequence[Times], threshold: float, *, scopes: bool = True
) -> list[Change]:
    """Each kernel of two sides, see `compare`.

    Args:
        base: the profiles of the first side.
        new: those of the second.
        threshold: see `compare`.
        scopes: whether a kernel's launches in different scopes are compared apart; they are not
            where one of the profiles does not say.

    Raises:
        UsageError: some were timed on a GPU, others on the CPU.
    """
    places = {each.timed_on or "GPU" for each in (*base, *new)}
    if len(places) > 1:
        raise UsageError(
            "some of these profiles were timed on the CPU, others on a GPU; compare like with like"
        )
    apart = scopes and all(each.scoped for each in (*base, *new))
    before, after = (
        _joined([each.seconds if apart else each.without_scopes() for each in side])
        for side in (base, new)
    )
    return compare(before, after, threshold, on_cpu="CPU" in places)


def _joined(runs: Sequence[Mapping[Key, list[float]]]) -> dict[Key, list[list[float]]]:
    found: dict[Key, list[list[float]]] = {}
    for run in runs:
        for key, seconds in run.items():
            found.setdefault(key, []).append(seconds)
    return found


def compare(base: Runs, new: Runs, threshold: float, *, on_cpu: bool = False) -> list[Change]:
    """Each kernel of two sides, in the order of the first.

    Args:
        base: seconds of launches, by run.
        new: the same of the second side.
        threshold: a kernel counts as slower if the interval of its ratio lies above 1 and
            reaches 1 + threshold: it did become slower, and so much for all that was measured. It
            counts as faster if the interval lies below 1 and reaches 1 / (1 + threshold), and as
            the same if the interval lies between these two. All else is inconclusive.
        on_cpu: whether times are of the CPU, which other programs share.
    """
    # The more kernels, the more intervals miss: their misses together are as rare as one may be.
    both = sum(key in new for key in base)
    level = 1 - (1 - LEVEL) / max(1, both)
    alone, several = _BETWEEN_RUNS["CPU" if on_cpu else "GPU"]
    changes = []
    for key in {**base, **new}:
        sides = [[run for run in side.get(key, ()) if len(run)] for side in (base, new)]
        factor = alone if max(len(side) for side in sides) == 1 else several
        changes.append(_change(key, sides[0], sides[1], threshold, level, factor))
    return changes


def _change(
    key: Key,
    base: Sequence[Sequence[float]],
    new: Sequence[Sequence[float]],
    threshold: float,
    level: float,
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
    if min(map(min, (*base, *new))) <= 0:  # a clock that is too coarse for it
        return replace(change, verdict="inconclusive")
    ratio, interval = ratio_interval(base, new, level)
    if interval is None:
        return replace(change, ratio=ratio, verdict="too few launches")
    low, high = interval[0] / factor, interval[1] * factor
    return replace(change, ratio=ratio, low=low, high=high, verdict=verdict(low, high, threshold))


def verdict(low: float, high: float, threshold: float) -> Verdict:
    """What an interval of a ratio says, see `compare`."""
    most = (1 + threshold) * (1 - _ROUNDING)
    least = (1 + _ROUNDING) / (1 + threshold)
    if low > 1 and high >= most:
        return "slower"
    if high < 1 and low <= least:
        return "faster"
    return "same" if least <= low and high <= most else "inconclusive"
