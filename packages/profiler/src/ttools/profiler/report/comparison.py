"""Two profiles beside each other: which kernels became slower, and how sure that is.

Kernels are matched by the scopes around them, name and configuration. The ratio of two medians
comes with an interval from resampling both runs' launches, so that noise is not taken for a change.
Must not know how profiles are made or shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ttools.core.json_document import Amount, read_json_document

SCHEMA = "ttools.profile/1"
#: Fewer launches say too little of their spread.
FEWEST = 5
_RESAMPLES = 2000
_CONFIDENCE = 0.99
#: Of times, so that one of exactly 1 + threshold times another is recognised.
_ROUNDING = 1e-9
#: Of a function in Python's stack: lines move when a program is edited.
_PLACE = re.compile(r"(?<=\.py):\d+(?=\)$)")

#: Scopes from the outermost, kernel and configuration.
Key: TypeAlias = tuple[tuple[str, ...], str, str]
Verdict = Literal["slower", "faster", "same", "new", "removed", "too few launches"]


@dataclass(frozen=True, kw_only=True)
class Change:
    """A kernel in two runs.

    Attributes:
        scope: around its launches, from the outermost; empty also without scopes.
        kernel: its name.
        config: of the autotuner.
        base_s: median seconds of a launch in the first run; None if it was not launched there.
        new_s: the same in the second.
        ratio: of the medians, second to first.
        low: end of the ratio's interval.
        high: its other end.
        verdict: slower or faster where the interval excludes an equal time and reaches the
            threshold.
    """

    scope: tuple[str, ...]
    kernel: str
    config: str
    base_s: float | None
    new_s: float | None
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
    """

    seconds: Mapping[Key, list[float]]
    scoped: bool

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


def read_profile(path: Path) -> Times:
    """Seconds of each launch, from a profile in JSON.

    Raises:
        UsageError: the file cannot be read or is no such profile.
    """
    rows = read_json_document(
        path,
        SCHEMA,
        "profile",
        _Profile,
        advice="write it with `ttools profile --format json --output FILE`",
    ).kernels
    found: dict[Key, list[float]] = {}
    scoped = all(row.scopes is not None for row in rows)
    for row in rows:
        for each in (scoped and row.scopes) or [_Scope([], row.seconds)]:
            key = tuple(_PLACE.sub("", name) for name in each.scope), row.kernel, str(row.config)
            found.setdefault(key, []).extend(each.seconds)
    return Times(seconds=found, scoped=scoped)


def compare_profiles(
    base: Times, new: Times, threshold: float, *, scopes: bool = True
) -> list[Change]:
    """Each kernel of two profiles, see `compare`.

    Args:
        base: the first.
        new: the second.
        threshold: see `compare`.
        scopes: whether a kernel's launches in different scopes are compared apart; they are not
            where one of the profiles does not say.
    """
    if scopes and base.scoped and new.scoped:
        return compare(base.seconds, new.seconds, threshold)
    return compare(base.without_scopes(), new.without_scopes(), threshold)


def compare(
    base: Mapping[Key, list[float]], new: Mapping[Key, list[float]], threshold: float
) -> list[Change]:
    """Each kernel of two runs, in the order of the first.

    Args:
        base: seconds of launches, see `read_profile`.
        new: the same of the second run.
        threshold: a kernel counts as slower if the interval of its ratio lies above 1 and
            reaches 1 + threshold: it did become slower, and so much for all that was measured. It
            counts as faster if the interval lies below 1 and reaches 1 / (1 + threshold).
    """
    return [_change(key, base.get(key, []), new.get(key, []), threshold) for key in {**base, **new}]


def _change(key: Key, base: list[float], new: list[float], threshold: float) -> Change:
    scope, kernel, config = key
    base_s, new_s = (float(np.median(each)) if each else None for each in (base, new))
    verdict: Verdict = "new" if base_s is None else "removed"
    change = Change(
        scope=scope, kernel=kernel, config=config, base_s=base_s, new_s=new_s, verdict=verdict
    )
    if base_s is None or new_s is None:
        return change
    ratio = new_s / base_s if base_s else None
    if ratio is None or min(len(base), len(new)) < FEWEST:
        return replace(change, ratio=ratio, verdict="too few launches")
    low, high = _interval(np.array(base), np.array(new))
    verdict = "same"
    if low > 1 and high >= (1 + threshold) * (1 - _ROUNDING):
        verdict = "slower"
    elif high < 1 and low <= (1 + _ROUNDING) / (1 + threshold):
        verdict = "faster"
    return replace(change, ratio=ratio, low=low, high=high, verdict=verdict)


def _interval(base: NDArray[np.float64], new: NDArray[np.float64]) -> tuple[float, float]:
    """The interval of the ratio of medians, by the percentile bootstrap; equal for equal input."""
    generator = np.random.default_rng(0)
    medians = [
        np.median(generator.choice(each, (_RESAMPLES, len(each))), axis=1) for each in (base, new)
    ]
    tail = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(medians[1] / np.maximum(medians[0], 1e-12), [tail, 1 - tail])
    return float(low), float(high)
