"""Confidence intervals for medians."""

from __future__ import annotations

import math
from collections.abc import Sequence

#: Minimum probability that an interval contains the median.
LEVEL = 0.95


def median_interval(samples: Sequence[float]) -> tuple[float, float] | None:
    """Return a distribution-free confidence interval for the median.

    The bounds are order statistics: the innermost pair whose coverage is at least `LEVEL`, given
    that each sample lies below the median with probability one half (David & Nagaraja, Order
    Statistics, 7.1).

    Args:
        samples: Independent samples, in any order.

    Returns:
        None if there are too few samples for an interval with this coverage.
    """
    count = len(samples)
    ordered = sorted(samples)
    best = None
    outside = 0.0  # one tail: P(fewer than `rank` samples lie below the median)
    for rank in range(1, count // 2 + 1):
        outside += math.comb(count, rank - 1) / 2**count
        if 1 - 2 * outside < LEVEL:
            break
        best = (ordered[rank - 1], ordered[count - rank])
    return best
