"""The importance of parameters for a kernel's time: permutation importance of a random forest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ttools.tuner.space.candidate import distinct_values
from ttools.tuner.store.ranking import estimate
from ttools.tuner.store.store import TuningEntry

#: With fewer configurations than this, a forest is not meaningful.
_FEWEST = 12
#: No importances are reported if the forest explains less than this share of the variation of
#: unseen data (R²).
_LEAST_EXPLAINED = 0.5
_TREES = 200


@dataclass(frozen=True, kw_only=True)
class Importances:
    """The influence of parameters on the time of configurations.

    Attributes:
        explained: Share of the variation of the logarithmic times of left-out configurations that
            the forest explains (out-of-bag R²).
        shares: Share of importance of each parameter that varies, the largest first; the sum is 1.
    """

    explained: float
    shares: Mapping[str, float]

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items())
        return (
            f"{parts}; the model explains {self.explained:.0%} of the variation in times that it "
            "was not fitted to"
        )


def importances(entry: TuningEntry) -> Importances | None:
    """Return how the times of a tuning depend on each parameter that varies.

    The importance of a parameter is the amount by which a random forest predicts worse if the
    values of this parameter are exchanged between configurations (Breiman, "Random Forests", 2001).
    Shares are relative to the sum over all parameters. They describe the configurations that were
    tried, and a search mostly tries fast configurations.

    Returns:
        None if too few configurations were timed, fewer than two parameters vary, or the forest
        explains too little.
    """
    costs = [(t.values, cost) for t in entry.trials if (cost := estimate(entry, t)) is not None]
    names = dict.fromkeys(name for values, _ in costs for name in values)
    ranks = {
        name: {repr(value): rank for rank, value in enumerate(distinct)}
        for name in names
        if len(distinct := distinct_values(values.get(name) for values, _ in costs)) > 1
    }
    if len(costs) < _FEWEST or len(ranks) < 2:
        return None
    from sklearn.ensemble import RandomForestRegressor  # the import takes a second
    from sklearn.inspection import permutation_importance

    points = np.array([[of[repr(v.get(n))] for n, of in ranks.items()] for v, _ in costs])
    logs = np.array([math.log(cost) for _, cost in costs])
    forest = RandomForestRegressor(_TREES, oob_score=True, random_state=0).fit(points, logs)
    importance = permutation_importance(forest, points, logs, n_repeats=10, random_state=0)
    gains = dict(zip(ranks, np.maximum(importance.importances_mean, 0.0).tolist(), strict=True))
    total = sum(gains.values())
    explained = float(forest.oob_score_)
    if explained < _LEAST_EXPLAINED or not total:
        return None
    ordered = sorted(gains, key=lambda name: -gains[name])
    return Importances(explained=explained, shares={n: gains[n] / total for n in ordered})
