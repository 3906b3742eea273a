"""An upper bound on how much better an untried configuration may be: the option `--within`.

The bound is derived from the lowest value, over all untried configurations, of the surrogate
model's lower confidence bound. It is only as reliable as the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist

import numpy as np

from ttools.tuner.search.guided import LOOKED_AT
from ttools.tuner.search.surrogate import Axes, Surrogate
from ttools.tuner.space.candidate import Candidate

#: With fewer costs, no model is fitted.
FEWEST = 8
#: Probability, according to the model, that no untried configuration is better than the bound.
CONFIDENCE = 0.95


def regret_bound(
    space: Sequence[Candidate], costs: Mapping[str, float], tried: int | None = None
) -> float:
    """Bound how much slower the best configuration found may be than the best of the space.

    Args:
        space: All candidates of the space.
        costs: Costs of the candidates that were tried and may win, by key.
        tried: Number of candidates tried, including those that cannot win; None for `len(costs)`.

    Returns:
        The relative slowdown, for example 0.05 for five percent; infinity if there are too few
        costs for a model.
    """
    if (len(costs) if tried is None else tried) >= len(space):
        return 0.0
    if len(costs) < FEWEST:
        return math.inf
    measured = [(candidate, costs[candidate.key]) for candidate in space if candidate.key in costs]
    left = [candidate for candidate in space if candidate.key not in costs]
    model = Surrogate(Axes(space), measured)
    # The bound holds for all untried candidates at once: each gets an equal share of the error
    # probability.
    z = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / len(left))
    least = math.inf
    for start in range(0, len(left), LOOKED_AT):
        mean, deviation = model.predict(left[start : start + LOOKED_AT])
        least = min(least, float(np.min(mean - z * deviation)))
    return math.expm1(max(0.0, math.log(min(costs.values())) - least))
