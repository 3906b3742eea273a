"""How sure the ratio of a kernel's times on two sides is, each side being one or several runs.

Launches of one run share what the run met: clocks, other programs, where memory was placed. So the
spread between runs decides where there are several of them, and that between launches only where
there is one of each side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, floor, inf, sqrt

import numpy as np
from scipy import stats

#: Fewer launches of a run that is alone on its side say too little of their spread.
FEWEST = 5
#: Of the launches of a run, the share at either end that a few outliers may take.
_TRIMMED = 0.2


@dataclass(frozen=True)
class _Side:
    """The logarithm of a time, as runs or launches tell it.

    Attributes:
        centre: the estimate.
        variance: of the estimate.
        freedom: degrees of freedom of that variance.
    """

    centre: float
    variance: float
    freedom: float


def ratio_interval(
    base: Sequence[Sequence[float]], new: Sequence[Sequence[float]], level: float
) -> tuple[float, tuple[float, float] | None]:
    """The ratio of the second side's time to the first's, with Welch's interval of it.

    Of one run a side, the time is the mean of its launches without a fifth at either end, and its
    variance that of Yuen (Biometrika 61, 1974). Of several runs it is the mean of theirs. A side of
    one run beside several is taken to vary as these do.

    Args:
        base: positive seconds of launches, by run.
        new: the same of the other side.
        level: the probability that the interval holds the ratio.

    Returns:
        The ratio; and its interval, None if runs that are alone have fewer than `FEWEST` launches.
    """
    runs = [[_of_launches(run) for run in side] for side in (base, new)]
    known = [_of_runs(side) for side in runs]
    for mine, other in ((0, 1), (1, 0)):
        if known[mine] is None and (spread := known[other]) is not None:
            of_a_run = spread.variance * len(runs[other])
            known[mine] = _Side(runs[mine][0].centre, of_a_run, spread.freedom)
    left, right = (each or side[0] for each, side in zip(known, runs, strict=True))
    gap = right.centre - left.centre
    alone = len(base) == len(new) == 1
    if alone and min(len(base[0]), len(new[0])) < FEWEST:
        return exp(gap), None
    half = _half_width(left, right, level)
    return exp(gap), (exp(gap - half), exp(gap + half) if half < 700 else inf)


def _half_width(left: _Side, right: _Side, level: float) -> float:
    """Half of Welch's interval of a difference, with Satterthwaite's degrees of freedom."""
    variance = left.variance + right.variance
    if not variance:
        return 0.0
    freedom = variance**2 / sum(side.variance**2 / side.freedom for side in (left, right))
    return float(stats.t.ppf((1 + level) / 2, freedom)) * sqrt(variance)


def _of_launches(seconds: Sequence[float]) -> _Side:
    ordered = np.sort(np.log(seconds))
    cut = floor(_TRIMMED * len(ordered))
    kept = len(ordered) - 2 * cut
    held = np.clip(ordered, ordered[cut], ordered[len(ordered) - 1 - cut])
    squares = float(np.square(held - held.mean()).sum())
    centre = float(ordered[cut : cut + kept].mean())
    return _Side(centre, squares / (kept * max(1, kept - 1)), max(1, kept - 1))


def _of_runs(runs: Sequence[_Side]) -> _Side | None:
    """The mean of several runs; None of one, which does not tell how runs vary."""
    if len(runs) < 2:
        return None
    centres = [run.centre for run in runs]
    between = float(np.var(centres, ddof=1)) / len(runs)
    # Runs can be equal by chance, or because a clock is coarse: their launches vary all the same.
    within = sum(run.variance for run in runs) / len(runs) ** 2
    return _Side(float(np.mean(centres)), max(between, within), len(runs) - 1)
