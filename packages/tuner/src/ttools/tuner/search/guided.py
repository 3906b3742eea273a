"""Bayesian optimisation of configurations, with a prior from other tuning keys of the kernel.

Each step fits a Gaussian process (`surrogate`) to the logarithmic costs measured so far, and
proposes candidates by expected improvement. The prior mean comes from other keys and from static
cost estimates.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ttools.tuner.search.surrogate import (
    Array,
    Axes,
    Surrogate,
    capped_costs,
    expected_improvement,
    load_model,
)
from ttools.tuner.space.candidate import Candidate

#: Costs of candidates by key; None for candidates that cannot win.
Known: TypeAlias = "Mapping[str, float | None]"
#: A function that returns logarithmic costs, estimated from compiled code, by key; it may block.
Hint: TypeAlias = "Callable[[], Mapping[str, float]]"

#: Number of candidates, spread over the space, that are tried before the model proposes any.
FIRST = 4
#: If there are estimates from compiled code, the first candidates are this many with the best
#: estimates, and further candidates that are spread over the better half.
LEADING = 2
#: Number of first candidates if there are costs for other keys; these candidates are expected to be
#: best.
FIRST_BY_OTHERS = 4
#: Number of other keys that contribute to the prior, nearest first.
MOST_OTHERS = 4
#: The number of candidates proposed at a time is the number of candidates tried divided by `SHARE`,
#: but at least one.
SHARE = 12
#: The model's hyperparameters are fitted again when the number of costs has grown by this factor.
GROWTH = 1.3
#: Costs are capped at this multiple of the lowest cost; candidates that cannot win are also given
#: this cost. The exact costs of bad candidates say nothing about good ones, and would only make the
#: modelled function less smooth.
CAP = 3.0
#: In spaces larger than this, each choice considers this many random candidates, and candidates
#: near the best one.
LOOKED_AT = 10_000
#: Number of standard deviations that are subtracted from the mean to rank neighbours of the best
#: candidate.
HOPE = 0.5
#: Number of random draws of first candidates; the draw with the greatest spread is used.
_DRAWS = 200


def no_hint() -> Mapping[str, float]:
    """Return no estimates."""
    return {}


def guided(
    space: Sequence[Candidate],
    seed: int,
    others: Sequence[Known] = (),
    hint: Hint = no_hint,
) -> Generator[Sequence[Candidate], list[float | None], None]:
    """Propose candidates that are expected to be good or are far apart, then the most promising.

    Steps alternate between two criteria. The first is the largest expected improvement over all
    candidates. The second considers only neighbours of the best candidate: candidates that differ
    from it in one parameter, or in two parameters by one step each.

    Args:
        space: All candidates of the space.
        seed: Seed of random choices.
        others: Costs of the candidates for other keys of the kernel, nearest key first.
        hint: Estimates from compiled code; they count as a further key, which is the farthest.
    """
    axes = Axes(space)
    if hint is not no_hint:  # load the model while the hint blocks
        threading.Thread(target=load_model, daemon=True).start()
    looks = Looks(space, axes, seed)
    prior = Expectation(axes, space, others, hint(), looks.first)
    costs: dict[str, float | None] = {}
    tried: dict[str, Candidate] = {}
    model, fitted, step = None, 0, 0
    batch: Sequence[Candidate]
    if not prior.is_known:
        batch = spread(looks.first, FIRST, seed)
    elif others:
        batch = _best(looks.first, prior, FIRST_BY_OTHERS)
    else:
        batch = _led(looks.first, prior, seed)
    while batch:
        measured = yield batch
        for candidate, cost in zip(batch, measured, strict=True):
            costs[candidate.key], tried[candidate.key] = cost, candidate
        measured_costs = capped_costs(costs, tried, CAP)
        left = looks.left(costs, _least(measured_costs)[0] if measured_costs else None)
        if len(measured_costs) < 2 or not left:
            batch = left[:1]
            continue
        again = len(measured_costs) < fitted * GROWTH
        model = Surrogate(axes, measured_costs, like=model if again else None, prior=prior)
        fitted = fitted if again else len(measured_costs)
        step += 1
        improvement = _expected_improvement(
            axes, model, measured_costs, left, is_near=step % 2 == 1
        )
        order = sorted(range(len(left)), key=lambda n: (-improvement[n], left[n].index))
        batch = [left[n] for n in order[: max(1, len(measured_costs) // SHARE)]]


class Looks:
    """Selects the candidates that are considered for a choice: all, or a sample of a large space.

    A new sample is drawn for each choice, and all neighbours of the best candidate are added.
    Therefore every candidate can be reached, but a choice takes no longer than in a space of
    `LOOKED_AT` candidates.

    Args:
        space: All candidates of the space.
        axes: Axes of the space.
        seed: Seed of random choices.

    Attributes:
        first: Candidates that are considered before any is tried, beginning with the first of the
            space.
    """

    def __init__(self, space: Sequence[Candidate], axes: Axes, seed: int) -> None:
        self._space, self._axes = space, axes
        self._draw = random.Random(seed)
        self._is_large = len(space) > LOOKED_AT
        self.first = space if not self._is_large else [space[0], *self._drawn()]

    def left(self, costs: Known, best: Candidate | None) -> list[Candidate]:
        """Return the untried candidates to consider next.

        Args:
            costs: Costs of the candidates tried so far.
            best: The best of these candidates, or None if none of them can win.
        """
        if not self._is_large:
            return [candidate for candidate in self._space if candidate.key not in costs]
        by_index = {candidate.index: candidate for candidate in self._drawn()}
        if best is not None:
            near = self._axes.are_near(self._ranks, best)
            neighbours = [self._space[n] for n in np.flatnonzero(near).tolist()]
            by_index |= {candidate.index: candidate for candidate in neighbours}
        return [
            candidate for _, candidate in sorted(by_index.items()) if candidate.key not in costs
        ]

    def _drawn(self) -> list[Candidate]:
        places = self._draw.sample(range(1, len(self._space)), LOOKED_AT)
        return [self._space[n] for n in sorted(places)]

    @cached_property
    def _ranks(self) -> npt.NDArray[np.int32]:
        return self._axes.all_ranks(self._space)


def _least(known: Sequence[tuple[Candidate, float]]) -> tuple[Candidate, float]:
    return min(known, key=lambda pair: (pair[1], pair[0].index))


def _expected_improvement(
    axes: Axes,
    model: Surrogate,
    known: Sequence[tuple[Candidate, float]],
    left: Sequence[Candidate],
    is_near: bool,
) -> Array:
    mean, deviation = model.predict(left)
    best, least = _least(known)
    if is_near:
        near = axes.are_near(axes.all_ranks(left), best)
        if near.any():
            return np.where(near, HOPE * deviation - mean, -np.inf)
    return expected_improvement(mean, deviation, math.log(least))


class Expectation:
    """The prior mean of candidates' logarithmic slowdowns, from other keys of the kernel.

    For each other key, a model predicts the candidates that were not tried for this key. The models
    are weighted by rank: the nearest key counts most, and estimates from compiled code count least.

    Args:
        axes: Axes of the space.
        space: All candidates of the space.
        others: Costs for other keys, see `guided`.
        hinted: Estimates from compiled code, by key.
        first: Candidates whose lowest cost is the reference for slowdowns.

    Attributes:
        is_known: True if there is any information.
    """

    def __init__(
        self,
        axes: Axes,
        space: Sequence[Candidate],
        others: Sequence[Known],
        hinted: Mapping[str, float],
        first: Sequence[Candidate],
    ) -> None:
        self._hinted = hinted
        self._models: list[tuple[float, Surrogate, dict[str, float], float]] = []
        nearest = others[:MOST_OTHERS]
        wanted = set().union(*nearest)
        by_key = (
            {candidate.key: candidate for candidate in space if candidate.key in wanted}
            if wanted
            else {}
        )
        for rank, other in enumerate(nearest, start=1):
            own = {key: cost for key, cost in other.items() if key in by_key}
            capped = capped_costs(own, by_key, CAP)
            if len(capped) >= 2:
                measured = {candidate.key: math.log(cost) for candidate, cost in capped}
                self._models.append((1 / rank, Surrogate(axes, capped), measured, 0.0))
        self._weight = 1 / (1 + len(nearest)) if hinted else 0.0
        self._weights = sum(weight for weight, *_ in self._models) + self._weight
        self.is_known = self._weights > 0
        self._means: dict[str, float] = {}
        self._models = [
            (weight, model, measured, float(_logarithms(model, measured, first).min()))
            for weight, model, measured, _ in self._models
        ]

    def __call__(self, candidates: Sequence[Candidate]) -> Array:
        """Return the prior mean of each candidate."""
        if not self.is_known:
            return np.zeros(len(candidates))
        new = [candidate for candidate in candidates if candidate.key not in self._means]
        if new:
            total = np.zeros(len(new))
            for weight, model, measured, least in self._models:
                total += (_logarithms(model, measured, new) - least) * weight
            if self._hinted:
                total += self._weight * np.array([self._hinted.get(e.key, 0.0) for e in new])
            means = total / self._weights
            pairs = zip(new, means, strict=True)
            self._means |= {candidate.key: float(mean) for candidate, mean in pairs}
        return np.array([self._means[candidate.key] for candidate in candidates])


def _logarithms(
    model: Surrogate, measured: Mapping[str, float], candidates: Sequence[Candidate]
) -> Array:
    mean, _ = model.predict(candidates)
    return np.array([measured.get(e.key, m) for e, m in zip(candidates, mean, strict=True)])


def _best(space: Sequence[Candidate], prior: Expectation, count: int) -> Sequence[Candidate]:
    ordered = sorted(zip(prior(space), space, strict=True), key=lambda p: (p[0], p[1].index))
    return [candidate for _, candidate in ordered[:count]]


def _led(space: Sequence[Candidate], prior: Expectation, seed: int) -> list[Candidate]:
    order = _best(space, prior, len(space))
    leading, half = order[:LEADING], order[LEADING : max(FIRST + 1, len(order) // 2)]
    return [*leading, *spread([order[0], *half], 1 + FIRST - LEADING, seed)[1:]]


def spread(space: Sequence[Candidate], count: int, seed: int) -> list[Candidate]:
    """Return `count` candidates that are far from each other, including the first of the space.

    Of several random draws, the one whose closest pair is farthest apart is returned.
    """
    if len(space) <= count:
        return list(space)
    points = Axes(space).points(space)
    draw = random.Random(seed)
    best: tuple[float, list[int]] = (-1.0, [])
    for _ in range(_DRAWS):
        chosen = [0, *draw.sample(range(1, len(space)), count - 1)]
        own = points[chosen]
        distances = np.square(own[:, None] - own[None]).sum(-1)
        distances[np.diag_indices(count)] = np.inf
        best = max(best, (float(distances.min()), chosen))
    return [space[n] for n in best[1]]
