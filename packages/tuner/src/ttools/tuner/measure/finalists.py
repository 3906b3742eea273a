"""Which configurations are compared once more, and which of them wins.

Must not know how they are timed.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from ttools.tuner.measure.confidence import median_interval
from ttools.tuner.space.candidate import Candidate

#: Rounds of the comparison.
ROUNDS = 9
#: Configurations this close to the best are timed again, interleaved, at most so many.
FINALIST_RATIO, MOST_FINALISTS = 1.15, 5
#: Medians this close are equal; the least resource use wins. In recorded spaces that is more often
#: the same one in spite of noise than the first, or the one with the fewest registers.
TIE = 0.01
#: What is this close to the best may be its equal, and is a finalist too; of these at most so many,
#: those with the least resource use.
MAYBE_EQUAL, MOST_EQUAL = 0.03, 12
#: Of fewer samples, medians are also equal if their intervals overlap: it may be by chance that
#: they differ.
MANY_SAMPLES = 45


def finalists(timed: Sequence[tuple[Candidate, float]]) -> list[Candidate]:
    """Configurations close to the best, in the order of the space.

    All that may be equal to it are among them, as far as there is room: which of these are the
    fastest is chance, and the one with the least resource use is to win each time.
    """
    ordered = sorted(timed, key=lambda pair: (pair[1], pair[0].index))
    best = ordered[0][1]
    close = [each for each, cost in ordered if cost <= best * FINALIST_RATIO][:MOST_FINALISTS]
    equal = [each for each, cost in ordered if cost <= best * (1 + MAYBE_EQUAL)]
    equal = sorted(equal, key=lambda each: each.resource_use)[:MOST_EQUAL]
    return sorted({each.index: each for each in (*close, *equal)}.values(), key=lambda e: e.index)


def winner(timed: Sequence[tuple[Candidate, Sequence[float]]]) -> Candidate:
    """The configuration with the least median; of equals the one with the least resource use.

    Equal are medians within `TIE` of the least, and those of fewer than `MANY_SAMPLES` samples
    whose interval overlaps with its own, unless they are too far from it for a finalist.
    """
    medians = [(each, statistics.median(samples), samples) for each, samples in timed]
    _, best, samples = min(medians, key=lambda row: row[1])
    interval = median_interval(samples) if len(samples) < MANY_SAMPLES else None
    return min(
        (
            each
            for each, median, own in medians
            if median <= best * (1 + TIE)
            or (interval and median <= best * FINALIST_RATIO and _begins_below(own, interval[1]))
        ),
        key=lambda each: each.resource_use,
    )


def _begins_below(samples: Sequence[float], end: float) -> bool:
    interval = median_interval(samples)
    return interval is not None and interval[0] <= end
