"""Two profiles beside each other: which kernels became slower, and how sure that is.

Kernels are matched by name and configuration. The ratio of two medians comes with an interval from
resampling both runs' launches, so that noise is not taken for a change. Must not know how profiles
are made or shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ttools.core.errors import UsageError
from ttools.core.json_document import read_json_document

SCHEMA = "ttools.profile/1"
#: Fewer launches tell too little of their spread.
FEWEST = 5
_RESAMPLES = 2000
_CONFIDENCE = 0.99

#: Kernel and configuration.
Key: TypeAlias = tuple[str, str]
Verdict = Literal["slower", "faster", "same", "new", "removed", "too few launches"]


@dataclass(frozen=True, kw_only=True)
class Change:
    """A kernel in two runs.

    Attributes:
        kernel: its name.
        config: of the autotuner.
        base_s: median seconds of a launch in the first run; None if it was not launched there.
        new_s: the same in the second.
        ratio: of the medians, second to first.
        low: end of the ratio's interval.
        high: its other end.
        verdict: slower or faster where the interval lies beyond the threshold.
    """

    kernel: str
    config: str
    base_s: float | None
    new_s: float | None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: Verdict


def read_profile(path: Path) -> dict[Key, list[float]]:
    """Seconds of each launch by kernel and configuration, from a profile in JSON.

    Raises:
        UsageError: the file cannot be read or is no such profile.
    """
    data = read_json_document(
        path, SCHEMA, "profile", advice="write it with `ttools profile --format json --output FILE`"
    )
    try:
        return {
            (str(row["kernel"]), str(row["config"])): [float(each) for each in row["seconds"]]
            for row in data["kernels"]
        }
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"`{path}` is no complete profile: {error!r}") from error


def compare(
    base: Mapping[Key, list[float]], new: Mapping[Key, list[float]], threshold: float
) -> list[Change]:
    """Each kernel of two runs, in the order of the first.

    Args:
        base: seconds of launches, see `read_profile`.
        new: the same of the second run.
        threshold: a kernel counts as slower if the whole interval of its ratio lies beyond
            1 + threshold, and as faster if it lies below 1 / (1 + threshold).
    """
    return [_change(key, base.get(key, []), new.get(key, []), threshold) for key in {**base, **new}]


def _change(key: Key, base: list[float], new: list[float], threshold: float) -> Change:
    kernel, config = key
    base_s, new_s = (float(np.median(each)) if each else None for each in (base, new))
    if base_s is None or new_s is None:
        verdict: Verdict = "new" if base_s is None else "removed"
        return Change(kernel=kernel, config=config, base_s=base_s, new_s=new_s, verdict=verdict)
    ratio = new_s / base_s if base_s else None
    if ratio is None or min(len(base), len(new)) < FEWEST:
        return Change(
            kernel=kernel,
            config=config,
            base_s=base_s,
            new_s=new_s,
            ratio=ratio,
            verdict="too few launches",
        )
    low, high = _interval(np.array(base), np.array(new))
    verdict = "same"
    if low > 1 + threshold:
        verdict = "slower"
    elif high < 1 / (1 + threshold):
        verdict = "faster"
    return Change(
        kernel=kernel,
        config=config,
        base_s=base_s,
        new_s=new_s,
        ratio=ratio,
        low=low,
        high=high,
        verdict=verdict,
    )


def _interval(base: NDArray[np.float64], new: NDArray[np.float64]) -> tuple[float, float]:
    """Of the ratio of medians, by the percentile bootstrap; equal for equal input."""
    generator = np.random.default_rng(0)
    medians = [
        np.median(generator.choice(each, (_RESAMPLES, len(each))), axis=1) for each in (base, new)
    ]
    tail = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(medians[1] / np.maximum(medians[0], 1e-12), [tail, 1 - tail])
    return float(low), float(high)
