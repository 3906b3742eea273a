"""A model of what configurations cost: scikit-learn's Gaussian process over their values.

Owns how a configuration is a point: each parameter is the rank of its value among all values it
has in the space, in order if they are numbers, from 0 to 1. One more axis is what a warp has to do,
in doublings: kernels are often as good along a diagonal of the others, where larger blocks have
more warps. Costs are modelled as logarithms, so that differences are ratios. Must not know what is
tried next.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ttools.tuner.space.candidate import Candidate, distinct_values

Array = npt.NDArray[np.float64]
#: With fewer parameters that are numbers, what a warp has to do is nothing new.
_FEWEST_FOR_WORK = 2
#: Of the ways along an axis, how far apart values must be to say little about each other.
_FIRST_LENGTH, _LENGTHS = 0.7, (0.15, 6.0)
#: Variance of noise, relative to that of the costs.
_FIRST_NOISE, _NOISES = 1e-3, (1e-5, 1e-1)


def load_model() -> None:
    """Imports what a model needs, which takes a second."""
    import sklearn.gaussian_process  # noqa: F401


class Axes:
    """The parameters of a space, each with its values in order.

    Args:
        space: the candidates; one that lacks a parameter has a rank of its own for that.
    """

    def __init__(self, space: Sequence[Candidate]) -> None:
        names = dict.fromkeys(name for each in space for name in each.values)
        self.values: dict[str, list[Any]] = {}
        for name in names:
            seen = distinct_values(each.values.get(name) for each in space)
            if len(seen) > 1:
                self.values[name] = seen
        self._ranks = {
            name: {repr(value): rank for rank, value in enumerate(values)}
            for name, values in self.values.items()
        }
        work = [math.log2(each.work) for each in space] or [0.0]
        self._least_work, self._work_range = min(work), max(work) - min(work)
        counted = [n for n, v in self.values.items() if all(type(each) is int for each in v)]
        if len(counted) < _FEWEST_FOR_WORK:
            self._work_range = 0.0

    @property
    def count(self) -> int:
        """How many axes there are."""
        return len(self.values) + (self._work_range > 0)

    def ranks(self, candidate: Candidate) -> dict[str, int]:
        """The ranks of a candidate's values, by parameter."""
        return {
            name: ranks[repr(candidate.values.get(name))] for name, ranks in self._ranks.items()
        }

    def are_near(self, one: Candidate, other: Candidate) -> bool:
        """Whether two candidates differ in a single parameter, or in two by a step each."""
        own, its = self.ranks(one), self.ranks(other)
        steps = [abs(own[name] - its[name]) for name in own if own[name] != its[name]]
        return len(steps) == 1 or steps == [1, 1]

    def points(self, candidates: Sequence[Candidate]) -> Array:
        """A row per candidate, an axis per column, each one long."""
        rows = [
            [rank / (len(self.values[name]) - 1) for name, rank in self.ranks(each).items()]
            for each in candidates
        ]
        points = np.array(rows, dtype=np.float64).reshape(len(candidates), len(self.values))
        if not self._work_range:
            return points
        work = np.array([math.log2(each.work) for each in candidates])
        return np.column_stack([points, (work - self._least_work) / self._work_range])


class Surrogate:
    """The model, fitted to the costs of some candidates.

    Args:
        axes: of the space.
        costs: positive ones, of at least two candidates.
        like: an older model, whose lengths and noise are taken over; found anew by default, which
            takes most of the time.
        prior: a logarithmic cost of each candidate of the space, by key, up to a constant: what is
            modelled is the difference from it.
    """

    def __init__(
        self,
        axes: Axes,
        costs: Sequence[tuple[Candidate, float]],
        like: Surrogate | None = None,
        prior: Mapping[str, float] | None = None,
    ) -> None:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
        from threadpoolctl import threadpool_limits

        self._axes, self._prior = axes, prior
        scale = [_FIRST_LENGTH] * axes.count
        kernel = ConstantKernel(1.0, (0.1, 10.0)) * Matern(scale, _LENGTHS, nu=2.5)
        self._model: Any = GaussianProcessRegressor(
            kernel + WhiteKernel(_FIRST_NOISE, _NOISES) if like is None else like._model.kernel_,
            optimizer="fmin_l_bfgs_b" if like is None else None,
            normalize_y=True,
            random_state=0,
        )
        points = axes.points([each for each, _ in costs])
        # Matrices this small are slower on several threads.
        with warnings.catch_warnings(), threadpool_limits(1):
            # A length at the end of its range is a parameter that does not matter.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self._model.fit(points, [math.log(cost) - self._expected(c) for c, cost in costs])

    def _expected(self, candidate: Candidate) -> float:
        return 0.0 if self._prior is None else self._prior[candidate.key]

    def predict(self, candidates: Sequence[Candidate]) -> tuple[Array, Array]:
        """Mean and standard deviation of each candidate's logarithmic cost."""
        mean, deviation = self._model.predict(self._axes.points(candidates), return_std=True)
        expected = [self._expected(each) for each in candidates]
        return np.asarray(mean) + np.array(expected), np.asarray(deviation)


def expected_improvement(mean: Array, deviation: Array, best: float) -> Array:
    """The expected improvement of each on the best (Jones et al., 1998).

    Args:
        mean: of the model.
        deviation: of the model.
        best: the least logarithmic cost so far.
    """
    spread = np.maximum(deviation, 1e-12)
    z = (best - mean) / spread
    below = np.array([0.5 * math.erfc(-each / math.sqrt(2)) for each in z])
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return np.asarray(spread * (z * below + density))


def capped_costs(
    costs: Mapping[str, float | None], by_key: Mapping[str, Candidate], cap: float
) -> list[tuple[Candidate, float]]:
    """Positive costs of at most so many times the least; what cannot win counts as that.

    A cost of 0, as a coarse clock may report, counts as the least of the others.

    Returns:
        Nothing if no candidate can win.
    """
    known = [cost for cost in costs.values() if cost is not None]
    if not known:
        return []
    least = min((cost for cost in known if cost > 0), default=1.0)
    most = least * cap
    return [
        (by_key[key], most if cost is None else max(least, min(cost, most)))
        for key, cost in costs.items()
    ]
