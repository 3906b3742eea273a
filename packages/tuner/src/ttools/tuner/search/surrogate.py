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
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ttools.tuner.space.candidate import Candidate, distinct_values

Array = npt.NDArray[np.float64]
#: With fewer parameters that are numbers, what a warp has to do is nothing new.
_FEWEST_FOR_WORK = 2
#: Of a space of more candidates, the range of what a warp has to do is that of a part.
_ENOUGH_FOR_WORK = 20_000
#: Of more costs, so many are modelled: the time that a model takes grows with the cube.
MOST_MODELLED = 512
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
        some = space[:: 1 + len(space) // _ENOUGH_FOR_WORK]
        work = [math.log2(each.work) for each in some] or [0.0]
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

    def all_ranks(self, candidates: Sequence[Candidate]) -> npt.NDArray[np.int32]:
        """The ranks of many candidates, a row per parameter."""
        rows = [
            np.fromiter(
                (ranks[repr(each.values.get(name))] for each in candidates),
                np.int32,
                len(candidates),
            )
            for name, ranks in self._ranks.items()
        ]
        return np.array(rows, np.int32).reshape(len(rows), len(candidates))

    def are_near(self, ranks: npt.NDArray[np.int32], one: Candidate) -> npt.NDArray[np.bool_]:
        """Which of many differ from one in a single parameter, or in two by a step each.

        Args:
            ranks: of the many, see `all_ranks`.
            one: a candidate of the space.
        """
        differing = np.zeros(ranks.shape[1], np.int32)
        steps = np.zeros(ranks.shape[1], np.int32)
        for row, own in zip(ranks, self.ranks(one).values(), strict=True):
            differing += row != own
            steps += np.abs(row - own)
        found: npt.NDArray[np.bool_] = (differing == 1) | ((differing == 2) & (steps == 2))
        return found

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
        prior: gives a logarithmic cost of candidates, up to a constant: what is modelled is the
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
        chosen = [each for each, _ in costs]
        points = axes.points(chosen)
        logarithms = np.array([math.log(cost) for _, cost in costs]) - self._expected(chosen)
        # Matrices this small are slower on several threads.
        with warnings.catch_warnings(), threadpool_limits(1):
            # A length at the end of its range is a parameter that does not matter.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self._model.fit(points, logarithms)

    def _expected(self, candidates: Sequence[Candidate]) -> Array:
        return np.zeros(len(candidates)) if self._prior is None else self._prior(candidates)

    def predict(self, candidates: Sequence[Candidate]) -> tuple[Array, Array]:
        """Mean and standard deviation of each candidate's logarithmic cost."""
        mean, deviation = self._model.predict(self._axes.points(candidates), return_std=True)
        return np.asarray(mean) + self._expected(candidates), np.asarray(deviation)


def _most_telling(costs: Sequence[tuple[Candidate, float]]) -> Sequence[tuple[Candidate, float]]:
    """As many costs as a model takes: the least ones, and as many of the others, evenly."""
    if len(costs) <= MOST_MODELLED:
        return costs
    order = sorted(costs, key=lambda pair: (pair[1], pair[0].index))
    best, others = order[: MOST_MODELLED // 2], order[MOST_MODELLED // 2 :]
    places = np.linspace(0, len(others) - 1, MOST_MODELLED - len(best)).astype(int)
    return [*best, *(others[place] for place in places)]


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
