"""How much better than the best one found an untried configuration may be: `--within`.

Owns the bound: the least lower confidence bound of the surrogate over what was not tried. It holds
as far as the model does. Must not know what is tried next.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist

import numpy as np

from ttools.tuner.search.guided import LOOKED_AT
from ttools.tuner.search.surrogate import Axes, Surrogate
from ttools.tuner.space.candidate import Candidate

#: Fewer costs make no model.
FEWEST = 8
#: The probability that no untried configuration is better than the bound says, by the model.
CONFIDENCE = 0.95


def regret_bound(
    space: Sequence[Candidate], costs: Mapping[str, float], tried: int | None = None
) -> float:
    """The share by which the best one found may be slower than the best of all, with confidence.

    Args:
        space: the candidates.
        costs: of those that were tried and may win, by key.
        tried: how many were tried, those that cannot win included; as many as there are costs by
            default.

    Returns:
        0.05 for five percent; infinity where there are too few costs for a model.
    """
    if (len(costs) if tried is None else tried) >= len(space):
        return 0.0
    if len(costs) < FEWEST:
        return math.inf
    known = [(each, costs[each.key]) for each in space if each.key in costs]
    left = [each for each in space if each.key not in costs]
    model = Surrogate(Axes(space), known)
    # All of them at once: each one's share of the doubt.
    z = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / len(left))
    least = math.inf
    for start in range(0, len(left), LOOKED_AT):
        mean, deviation = model.predict(left[start : start + LOOKED_AT])
        least = min(least, float(np.min(mean - z * deviation)))
    return math.expm1(max(0.0, math.log(min(costs.values())) - least))
