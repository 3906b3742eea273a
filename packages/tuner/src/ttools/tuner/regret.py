"""How much better than the best one found an untried configuration may be: `--within`.

Owns the bound: Optuna's regret bound of a Gaussian process over the logarithms of the costs, so
that differences are ratios. Must not know what is tried next.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence

from ttools.core.errors import UsageError
from ttools.tuner.guided import Axes, distributions
from ttools.tuner.trial import Candidate

#: Fewer costs make no model.
FEWEST = 8


def require_model() -> None:
    """Finds out whether the bound can be computed.

    Raises:
        UsageError: SciPy is not installed.
    """
    try:
        import scipy  # noqa: F401 - what Optuna's Gaussian process needs
    except ImportError as error:
        raise UsageError("--within needs SciPy: pip install 'ttools-tuner[model]'") from error


def regret_bound(space: Sequence[Candidate], costs: Mapping[str, float]) -> float:
    """By which share the best one found may be slower than the best of all, with confidence.

    The bound of Optuna's `RegretBoundEvaluator`: the lower confidence bound of the model over the
    space against the upper one at what was tried (Makarova et al., Automatic Termination for
    Hyperparameter Optimization, 2022).

    Args:
        space: the candidates.
        costs: of those that were tried and may win, by key.

    Returns:
        0.05 for five percent; infinity where there are too few costs for a model.
    """
    if len(costs) < FEWEST:
        return math.inf
    if len(costs) >= len(space):
        return 0.0
    import optuna
    from optuna.terminator import RegretBoundEvaluator

    axes = Axes(space)
    kinds = distributions(axes)
    if not kinds:
        return 0.0
    trials = [
        optuna.trial.create_trial(
            params=axes.places(each), distributions=kinds, value=math.log(costs[each.key])
        )
        for each in space
        if each.key in costs
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        bound = RegretBoundEvaluator(seed=0).evaluate(trials, optuna.study.StudyDirection.MINIMIZE)
    return math.expm1(max(0.0, bound))
