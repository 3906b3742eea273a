"""How much each parameter matters for the time of a kernel: permutation importance of a forest.

Owns what is said of a tuning, and when nothing is. Must not know how it is shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ttools.tuner.space.candidate import distinct_values
from ttools.tuner.store.ranking import estimate
from ttools.tuner.store.store import TuningEntry

#: Of fewer configurations a forest says nothing.
_FEWEST = 12
#: If it explains less of what it has not seen, its parameters are no explanation.
_LEAST_EXPLAINED = 0.5
_TREES = 200


@dataclass(frozen=True, kw_only=True)
class Importances:
    """What decides how long configurations take.

    Attributes:
        explained: how much of the variation of the times' logarithms the parameters explain for
            configurations that were left out (R² out of bag).
        shares: of each parameter that varies, the largest first; the sum is 1.
    """

    explained: float
    shares: Mapping[str, float]

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items())
        return f"{parts}; a forest on them explains {self.explained:.0%} of times left out"


def importances(entry: TuningEntry) -> Importances | None:
    """How the times of a tuning depend on each parameter that varies.

    A parameter's share is how much worse a random forest predicts if the values of that parameter
    are exchanged between configurations (Breiman, "Random Forests", 2001), by what it is for all.
    They are of the configurations that were tried, which a search chooses where they are fast.

    Returns:
        None where too few were timed, one parameter varies, or the forest explains too little.
    """
    costs = [(t.values, cost) for t in entry.trials if (cost := estimate(entry, t)) is not None]
    names = dict.fromkeys(name for values, _ in costs for name in values)
    ranks = {
        name: {repr(value): rank for rank, value in enumerate(seen)}
        for name in names
        if len(seen := distinct_values(values.get(name) for values, _ in costs)) > 1
    }
    if len(costs) < _FEWEST or len(ranks) < 2:
        return None
    from sklearn.ensemble import RandomForestRegressor  # takes a second
    from sklearn.inspection import permutation_importance

    points = np.array([[of[repr(v.get(n))] for n, of in ranks.items()] for v, _ in costs])
    logs = np.array([math.log(cost) for _, cost in costs])
    forest = RandomForestRegressor(_TREES, oob_score=True, random_state=0).fit(points, logs)
    found = permutation_importance(forest, points, logs, n_repeats=10, random_state=0)
    gains = dict(zip(ranks, np.maximum(found.importances_mean, 0.0).tolist(), strict=True))
    total = sum(gains.values())
    explained = float(forest.oob_score_)
    if explained < _LEAST_EXPLAINED or not total:
        return None
    ordered = sorted(gains, key=lambda name: -gains[name])
    return Importances(explained=explained, shares={n: gains[n] / total for n in ordered})
