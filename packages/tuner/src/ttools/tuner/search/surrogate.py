"""A model of the cost of configurations: scikit-learn's Gaussian process.

Each configuration is a point in the unit cube. Each parameter with more than one value is an axis:
the coordinate is the rank of the value among the sorted values in the space, scaled to [0, 1]. For
example, with block sizes 32, 64 and 128, a block size of 64 has the coordinate 0.5.

A further axis is the logarithm of the work per warp, because kernels are often equally fast along a
diagonal: larger blocks with more warps. Costs are modelled as logarithms, so that differences in
the model are ratios of costs.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ttools.tuner.space.candidate import Candidate, distinct_values

Array = npt.NDArray[np.float64]
#: With fewer integer parameters than this, the work per warp adds no information.
_FEWEST_FOR_WORK = 2
#: In a space with more candidates than this, the range of the work per warp is estimated from a
#: sample.
_ENOUGH_FOR_WORK = 20_000
#: Maximum number of costs that are modelled, because fitting takes cubic time.
MOST_MODELLED = 512
#: Initial length scale of the axes, and its bounds.
_FIRST_LENGTH, _LENGTHS = 0.7, (0.15, 6.0)
#: Initial variance of the noise relative to the variance of the costs, and the bounds of this
#: ratio.
_FIRST_NOISE, _NOISES = 1e-3, (1e-5, 1e-1)


def load_model() -> None:
    """Import scikit-learn's Gaussian process, which takes a second."""
    import sklearn.gaussian_process  # noqa: F401


class Axes:
    """The parameters of a space, each with its sorted values.

    Args:
        space: All candidates; if a candidate lacks a parameter, this counts as a separate value.
    """

    def __init__(self, space: Sequence[Candidate]) -> None:
        names = dict.fromkeys(name for candidate in space for name in candidate.values)
        self.values: dict[str, list[Any]] = {}
        for name in names:
            distinct = distinct_values(candidate.values.get(name) for candidate in space)
            if len(distinct) > 1:
                self.values[name] = distinct
        self._ranks = {
            name: {repr(value): rank for rank, value in enumerate(values)}
            for name, values in self.values.items()
        }
        sample = space[:: 1 + len(space) // _ENOUGH_FOR_WORK]
        work = [math.log2(candidate.work) for candidate in sample] or [0.0]
        self._least_work, self._work_range = min(work), max(work) - min(work)
        counted = [n for n, v in self.values.items() if all(type(value) is int for value in v)]
        if len(counted) < _FEWEST_FOR_WORK:
            self._work_range = 0.0

    @property
    def count(self) -> int:
        """The number of axes."""
        return len(self.values) + (self._work_range > 0)

    def ranks(self, candidate: Candidate) -> dict[str, int]:
        """Return the ranks of a candidate's values, by parameter."""
        return {
            name: ranks[repr(candidate.values.get(name))] for name, ranks in self._ranks.items()
        }

    def all_ranks(self, candidates: Sequence[Candidate]) -> npt.NDArray[np.int32]:
        """Return the ranks of many candidates, with one row per parameter."""
        rows = [
            np.fromiter(
                (ranks[repr(candidate.values.get(name))] for candidate in candidates),
                np.int32,
                len(candidates),
            )
            for name, ranks in self._ranks.items()
        ]
        return np.array(rows, np.int32).reshape(len(rows), len(candidates))

    def are_near(self, ranks: npt.NDArray[np.int32], one: Candidate) -> npt.NDArray[np.bool_]:
        """Return which candidates differ from `one` in one parameter, or in two by one step each.

        Args:
            ranks: Ranks of the candidates, see `all_ranks`.
            one: A candidate of the space.
        """
        differing = np.zeros(ranks.shape[1], np.int32)
        steps = np.zeros(ranks.shape[1], np.int32)
        for row, own in zip(ranks, self.ranks(one).values(), strict=True):
            differing += row != own
            steps += np.abs(row - own)
        near: npt.NDArray[np.bool_] = (differing == 1) | ((differing == 2) & (steps == 2))
        return near

    def points(self, candidates: Sequence[Candidate]) -> Array:
        """Return the points of candidates, with one row per candidate and one column per axis."""
        rows = [
            [rank / (len(self.values[name]) - 1) for name, rank in self.ranks(candidate).items()]
            for candidate in candidates
        ]
        points = np.array(rows, dtype=np.float64).reshape(len(candidates), len(self.values))
        if not self._work_range:
            return points
        work = np.array([math.log2(candidate.work) for candidate in candidates])
        return np.column_stack([points, (work - self._least_work) / self._work_range])


class Surrogate:
    """A model that is fitted to the costs of some candidates.

    Args:
        axes: Axes of the space.
        costs: Positive costs of at least two candidates.
        like: A fitted model whose hyperparameters are reused. None fits new hyperparameters, which
            takes most of the time.
        prior: Prior mean of the logarithmic costs, up to a constant; the model is fitted to the
            difference from it.
    """

    def __init__(
        self,
        axes: Axes,
        costs: Sequence[tuple[Candidate, float]],
        like: Surrogate | None = None,
        prior: Callable[[Sequence[Candidate]], Array] | None = None,
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
        costs = _most_telling(costs)
        chosen = [candidate for candidate, _ in costs]
        points = axes.points(chosen)
        logarithms = np.array([math.log(cost) for _, cost in costs]) - self._expected(chosen)
        # Matrices of this size are processed more slowly with several threads.
        with warnings.catch_warnings(), threadpool_limits(1):
            # A length scale at its upper bound is expected for a parameter without influence.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self._model.fit(points, logarithms)

    def _expected(self, candidates: Sequence[Candidate]) -> Array:
        return np.zeros(len(candidates)) if self._prior is None else self._prior(candidates)

    def predict(self, candidates: Sequence[Candidate]) -> tuple[Array, Array]:
        """Return mean and standard deviation of each candidate's logarithmic cost."""
        mean, deviation = self._model.predict(self._axes.points(candidates), return_std=True)
        return np.asarray(mean) + self._expected(candidates), np.asarray(deviation)


def _most_telling(costs: Sequence[tuple[Candidate, float]]) -> Sequence[tuple[Candidate, float]]:
    """Select at most `MOST_MODELLED` costs: half of them the lowest, the others evenly spaced."""
    if len(costs) <= MOST_MODELLED:
        return costs
    order = sorted(costs, key=lambda pair: (pair[1], pair[0].index))
    best, others = order[: MOST_MODELLED // 2], order[MOST_MODELLED // 2 :]
    places = np.linspace(0, len(others) - 1, MOST_MODELLED - len(best)).astype(int)
    return [*best, *(others[place] for place in places)]


def expected_improvement(mean: Array, deviation: Array, best: float) -> Array:
    """Return each candidate's expected improvement on the best cost (Jones et al., 1998).

    Args:
        mean: Predicted mean of each candidate.
        deviation: Predicted standard deviation of each candidate.
        best: The lowest logarithmic cost so far.
    """
    spread = np.maximum(deviation, 1e-12)
    z = (best - mean) / spread
    below = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in z])
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return np.asarray(spread * (z * below + density))


def capped_costs(
    costs: Mapping[str, float | None], by_key: Mapping[str, Candidate], cap: float
) -> list[tuple[Candidate, float]]:
    """Return positive costs, capped at `cap` times the lowest.

    Candidates that cannot win are given this maximum as their cost.

    A cost of 0, which a coarse clock may report, counts as the lowest positive cost.

    Returns:
        Pairs of candidate and cost; empty if no candidate can win.
    """
    measured = [cost for cost in costs.values() if cost is not None]
    if not measured:
        return []
    least = min((cost for cost in measured if cost > 0), default=1.0)
    most = least * cap
    return [
        (by_key[key], most if cost is None else max(least, min(cost, most)))
        for key, cost in costs.items()
    ]
