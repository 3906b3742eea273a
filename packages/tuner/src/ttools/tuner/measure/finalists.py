"""Selection of the configurations that are compared again, and of the winner among them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from ttools.tuner.measure.confidence import median_interval
from ttools.tuner.space.candidate import Candidate

#: Number of rounds of the comparison.
ROUNDS = 9
#: Greatest time of a finalist relative to the best configuration, and greatest number of finalists.
FINALIST_RATIO, MOST_FINALISTS = 1.15, 5
#: Medians closer than this count as equal; the configuration with the least resource use wins. On
#: recorded spaces, noisy repetitions pick the same winner more often with this rule than with the
#: order of the space or the number of registers.
TIE = 0.01
#: A configuration this close to the best may be equal to it, and is a finalist, too. If there are
#: more than `MOST_EQUAL`, those with the least resource use are kept.
MAYBE_EQUAL, MOST_EQUAL = 0.03, 12
#: With fewer samples than this, medians also count as equal if their confidence intervals overlap,
#: because the difference may be due to chance.
MANY_SAMPLES = 45


def finalists(timed: Sequence[tuple[Candidate, float]]) -> list[Candidate]:
    """Return the configurations close to the best, in the order of the space.

    Chance decides which of several equally fast configurations is measured as the fastest. So that
    the one with the least resource use wins every time, all that may be equal to the best are
    included, up to `MOST_EQUAL`.
    """
    ordered = sorted(timed, key=lambda pair: (pair[1], pair[0].index))
    best = ordered[0][1]
    close = [candidate for candidate, cost in ordered if cost <= best * FINALIST_RATIO][
        :MOST_FINALISTS
    ]
    equal = [candidate for candidate, cost in ordered if cost <= best * (1 + MAYBE_EQUAL)]
    equal = sorted(equal, key=lambda candidate: candidate.resource_use)[:MOST_EQUAL]
    return sorted({c.index: c for c in (*close, *equal)}.values(), key=lambda c: c.index)


def winner(timed: Sequence[tuple[Candidate, Sequence[float]]]) -> Candidate:
    """Return the configuration with the least median; ties go to the least resource use.

    Medians within `TIE` of the least count as equal to it. So do medians of fewer than
    `MANY_SAMPLES` samples whose confidence interval overlaps with the interval of the least, as
    long as they are within `FINALIST_RATIO` of it.
    """
    medians = [(candidate, statistics.median(samples), samples) for candidate, samples in timed]
    _, best, samples = min(medians, key=lambda row: row[1])
    interval = median_interval(samples) if len(samples) < MANY_SAMPLES else None
    return min(
        (
            candidate
            for candidate, median, own in medians
            if median <= best * (1 + TIE)
            or (interval and median <= best * FINALIST_RATIO and _begins_below(own, interval[1]))
        ),
        key=lambda candidate: candidate.resource_use,
    )


def _begins_below(samples: Sequence[float], end: float) -> bool:
    interval = median_interval(samples)
    return interval is not None and interval[0] <= end
