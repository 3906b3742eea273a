"""Decides whether two times differ by more than noise, from an interval of their ratio.

`ttools profile compare` and `ttools tune` use this rule. Each side has one or more runs. The
launches of one run share its conditions, such as clock rates, other running programs and the
placement of memory. Therefore the width of the interval is computed from the spread between runs,
if a side has several runs, and otherwise from the spread between launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, floor, inf, sqrt
from typing import Literal

import numpy as np
from scipy.special import stdtrit

#: With fewer launches in a single run than this, their spread is too uncertain for an interval.
FEWEST = 5
#: The probability that all intervals of a report contain the true ratios.
LEVEL = 0.99
#: The relative rounding error of times, which is tolerated so that a ratio of exactly 1 + threshold
#: is recognised.
_ROUNDING = 1e-9
#: The factors by which two runs of one program may differ beyond the spread of their launches: the
#: first factor is for one profile per side; the second is for several profiles, for which the
#: spread between runs is known. Clocks of a GPU are assumed to vary by one or two per cent. On a
#: busy machine with two cores, a loop of arithmetic took 0.56 to 1.0 ms in six runs (24% around the
#: mean); runs that do not alternate also differ because the load of the machine changes.
BETWEEN_RUNS = {"GPU": (1.02, 1.0), "CPU": (4.0, 1.1)}
#: The share of launches at either end that is trimmed because of outliers.
_TRIMMED = 0.2


Verdict = Literal["slower", "faster", "same", "inconclusive"]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The difference between two times.

    Attributes:
        ratio: The second time divided by the first.
        low: Lower end of the ratio's interval; None if there are too few launches for an interval.
        high: Upper end of the ratio's interval; None if there are too few launches for an interval.
        verdict: See `verdict`; None if there are too few launches.
    """

    ratio: float
    low: float | None = None
    high: float | None = None
    verdict: Verdict | None = None


def difference(
    base: Sequence[Sequence[float]],
    new: Sequence[Sequence[float]],
    threshold: float,
    *,
    comparisons: int = 1,
    factor: float = 1.0,
) -> Difference:
    """Compare the times of two sides.

    Args:
        base: Launch times of the first side in seconds, by run; all are positive.
        new: Launch times of the second side in seconds, by run; all are positive.
        threshold: Relative difference that matters, such as 0.05; see `verdict`.
        comparisons: Number of comparisons in the report. With more comparisons, each interval must
            be wider to keep the probability that all intervals contain the true ratios.
        factor: Factor by which the two sides may differ beyond the spread of their launches.
    """
    ratio, interval = ratio_interval(base, new, 1 - (1 - LEVEL) / max(1, comparisons))
    if interval is None:
        return Difference(ratio=ratio)
    return difference_of(ratio, interval[0] / factor, interval[1] * factor, threshold)


def difference_of(ratio: float, low: float, high: float, threshold: float) -> Difference:
    """Return the difference for a ratio with a given interval."""
    return Difference(ratio=ratio, low=low, high=high, verdict=verdict(low, high, threshold))


def verdict(low: float, high: float, threshold: float) -> Verdict:
    """Return the verdict for the interval of a ratio.

    The second side is `slower` if the interval is above 1 and reaches 1 + threshold: it certainly
    takes longer, possibly by the threshold. It is `faster` if the interval is below 1 and reaches 1
    / (1 + threshold). The sides are the `same` if the interval is between these two limits. In all
    other cases, the verdict is `inconclusive`.
    """
    most = (1 + threshold) * (1 - _ROUNDING)
    least = (1 + _ROUNDING) / (1 + threshold)
    if low > 1 and high >= most:
        return "slower"
    if high < 1 and low <= least:
        return "faster"
    return "same" if least <= low and high <= most else "inconclusive"


@dataclass(frozen=True)
class _Side:
    """An estimate of the logarithm of a time, from runs or launches.

    Attributes:
        centre: The estimate of the logarithm.
        variance: Variance of the estimate.
        freedom: Degrees of freedom of the variance.
    """

    centre: float
    variance: float
    freedom: float


def ratio_interval(
    base: Sequence[Sequence[float]], new: Sequence[Sequence[float]], level: float
) -> tuple[float, tuple[float, float] | None]:
    """Return the ratio of the second side's time to the first's, with Welch's interval.

    If a side has one run, its time is the mean of the run's launches after a fifth was trimmed at
    either end, with Yuen's variance (Biometrika 61, 1974). If a side has several runs, its time is
    the mean of the times of the runs. If only one side has several runs, the other side is assumed
    to have the same variance.

    Args:
        base: Launch times of the first side in seconds, by run; all are positive.
        new: Launch times of the second side in seconds, by run; all are positive.
        level: Probability that the interval contains the ratio, 0 to 1.

    Returns:
        The ratio and its interval; no interval if there is one run per side and one of them has
        fewer than `FEWEST` launches.
    """
    runs = [[_of_launches(run) for run in side] for side in (base, new)]
    estimates = [_of_runs(side) for side in runs]
    for mine, other in ((0, 1), (1, 0)):
        if estimates[mine] is None and (spread := estimates[other]) is not None:
            of_a_run = spread.variance * len(runs[other])
            estimates[mine] = _Side(runs[mine][0].centre, of_a_run, spread.freedom)
    left, right = (estimate or side[0] for estimate, side in zip(estimates, runs, strict=True))
    gap = right.centre - left.centre
    alone = len(base) == len(new) == 1
    if alone and min(len(base[0]), len(new[0])) < FEWEST:
        return exp(gap), None
    half = _half_width(left, right, level)
    return exp(gap), (exp(gap - half), exp(gap + half) if half < 700 else inf)


def _half_width(left: _Side, right: _Side, level: float) -> float:
    """Return half of Welch's interval of a difference, with Satterthwaite's degrees of freedom."""
    variance = left.variance + right.variance
    if not variance:
        return 0.0
    freedom = variance**2 / sum(side.variance**2 / side.freedom for side in (left, right))
    return float(stdtrit(freedom, (1 + level) / 2)) * sqrt(variance)


def _of_launches(seconds: Sequence[float]) -> _Side:
    ordered = np.sort(np.log(seconds))
    cut = floor(_TRIMMED * len(ordered))
    kept = len(ordered) - 2 * cut
    clipped = np.clip(ordered, ordered[cut], ordered[len(ordered) - 1 - cut])
    squares = float(np.square(clipped - clipped.mean()).sum())
    centre = float(ordered[cut : cut + kept].mean())
    return _Side(centre, squares / (kept * max(1, kept - 1)), max(1, kept - 1))


def _of_runs(runs: Sequence[_Side]) -> _Side | None:
    """Return mean and variance of several runs; None for one run, whose variance is unknown."""
    if len(runs) < 2:
        return None
    centres = [run.centre for run in runs]
    between = float(np.var(centres, ddof=1)) / len(runs)
    # Times of runs can be equal by coincidence or because of a coarse clock.
    within = sum(run.variance for run in runs) / len(runs) ** 2
    return _Side(float(np.mean(centres)), max(between, within), len(runs) - 1)
