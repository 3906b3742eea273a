"""Selection of the configurations that are compared again, and of the winner among them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ttools.tuner.measure.trial import LEAST_SECONDS
from ttools.tuner.space.candidate import Candidate

if TYPE_CHECKING:
    from ttools.profiler.intervals import Difference

#: Number of rounds in the comparison of finalists: by default, and with effort `full`.
ROUNDS, FULL_ROUNDS = 9, 45
#: Largest time of a finalist relative to the best configuration, and maximum number of finalists.
FINALIST_RATIO, MOST_FINALISTS = 1.15, 5
#: Medians whose relative difference is smaller than this count as equal; among these, the
#: configuration with the lowest resource use wins. On recorded spaces, noisy repetitions agreed on
#: a winner more often with this rule than if ties went to the first configuration of the space, or
#: to the configuration with the fewest registers.
TIE = 0.01
#: A configuration that is slower than the best by at most this fraction may be equal to it and is
#: therefore also a finalist. If there are more than `MOST_EQUAL` such configurations, those with
#: the lowest resource use are kept.
MAYBE_EQUAL, MOST_EQUAL = 0.03, 12


def finalists(timed: Sequence[tuple[Candidate, float]]) -> list[Candidate]:
    """Return the configurations that are close to the best, in the order of the space.

    Which of several equally fast configurations is measured as the fastest is a matter of chance.
    All configurations that may be equal to the best, up to `MOST_EQUAL`, are therefore included, so
    that the configuration with the lowest resource use wins every time.
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
    """Return the configuration with the lowest median; ties go to the lowest resource use.

    A configuration ties with the fastest one if its median is within `TIE` of the lowest median, or
    if its median is within `FINALIST_RATIO` and the difference may be noise (see `compared`).
    """
    medians = [(candidate, statistics.median(samples), samples) for candidate, samples in timed]
    fastest, best, samples = min(medians, key=lambda row: row[1])
    comparisons = len(timed) - 1
    return min(
        (
            candidate
            for candidate, median, own in medians
            if candidate is fastest
            or median <= best * (1 + TIE)
            or (median <= best * FINALIST_RATIO and _is_tied(samples, own, comparisons))
        ),
        key=lambda candidate: candidate.resource_use,
    )


def _is_tied(base: Sequence[float], new: Sequence[float], comparisons: int) -> bool:
    return compared(base, new, comparisons).verdict not in (None, "slower")


def compared(
    base: Sequence[float], new: Sequence[float], comparisons: int, factor: float = 1.0
) -> Difference:
    """Compare the times of two configurations by the rule of `ttools profile compare`.

    Args:
        base: Launch times of the first configuration in seconds; all are positive.
        new: Launch times of the second configuration in seconds; all are positive.
        comparisons: Number of configurations that are compared with the first one.
        factor: Factor by which the times may differ because they were measured in different runs.
    """
    # Worker processes for a GPU load this module, too, but do not need SciPy.
    from ttools.profiler.intervals import difference

    floors = [[max(seconds, LEAST_SECONDS) for seconds in side] for side in (base, new)]
    return difference(floors[:1], floors[1:], TIE, comparisons=comparisons, factor=factor)
