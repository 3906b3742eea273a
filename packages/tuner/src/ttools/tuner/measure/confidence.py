"""How sure a median of samples is. Must not know what was sampled."""

from __future__ import annotations

import math
from collections.abc import Sequence

#: The probability that an interval holds the median.
LEVEL = 0.95


def median_interval(samples: Sequence[float]) -> tuple[float, float] | None:
    """An interval that holds the median of what was sampled, whatever its distribution.

    Of two order statistics, the innermost pair whose coverage is at least `LEVEL`: a sample is
    below the median with probability one half (David & Nagaraja, Order Statistics, 7.1).

    Args:
        samples: independent ones.

    Returns:
        None if there are too few samples for any interval of that level.
    """
    count = len(samples)
    ordered = sorted(samples)
    best = None
    outside = 0.0  # of one side: P(fewer than `rank` samples below the median)
    for rank in range(1, count // 2 + 1):
        outside += math.comb(count, rank - 1) / 2**count
        if 1 - 2 * outside < LEVEL:
            break
        best = (ordered[rank - 1], ordered[count - rank])
    return best
