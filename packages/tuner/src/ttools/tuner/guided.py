"""Search guided by a model of what was measured, here and for other keys of the kernel.

Owns which candidates come first and how many are proposed together; the model is `surrogate`'s.
Must not know what a cost is.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from ttools.tuner.surrogate import Array, Axes, Surrogate, costs_with_penalty, expected_improvement
from ttools.tuner.trial import Candidate

#: What was told of candidates, by key; None for those that cannot win.
Known: TypeAlias = "Mapping[str, float | None]"

#: Candidates tried before the model has a say: spread over the space.
FIRST = 4
#: The same if other keys are known: those that should be best by them.
FIRST_BY_OTHERS = 4
#: Of the other keys so many, the nearest ones, have a say.
MOST_OTHERS = 4
#: Candidates proposed together are one for so many that were tried, at least one.
SHARE = 12
#: By how much what is known must grow until the model's lengths are found anew.
GROWTH = 1.3
#: What cannot win counts as so many times the worst that can.
PENALTY = 2.0
#: Deviations by which a neighbour may be better than the model's mean says.
HOPE = 0.5
#: Random choices of first candidates, of which the most spread one is taken.
_DRAWS = 200


def guided(
    space: Sequence[Candidate], seed: int, others: Sequence[Known] = ()
) -> Generator[Sequence[Candidate], list[float | None], None]:
    """Those that were good for other keys or are spread over the space, then what promises most.

    Turns go to the greatest expected improvement and to the most promising one that differs from
    the best in a single parameter.

    Args:
        space: the candidates.
        seed: of random choices.
        others: what was told of the candidates for other keys of the kernel, the nearest first.
    """
    axes = Axes(space)
    by_key = {each.key: each for each in space}
    prior = expectation(axes, space, others)
    costs: dict[str, float | None] = {}
    model, fitted, turn = None, 0, 0
    batch = spread(space, FIRST, seed) if prior is None else _best(space, prior, FIRST_BY_OTHERS)
    while batch:
        told = yield batch
        costs.update((each.key, cost) for each, cost in zip(batch, told, strict=True))
        left = [each for each in space if each.key not in costs]
        known = costs_with_penalty(costs, by_key, PENALTY)
        if len(known) < 2 or not left:
            batch = left[:1]
            continue
        again = len(known) < fitted * GROWTH
        model = Surrogate(axes, known, like=model if again else None, prior=prior)
        fitted = fitted if again else len(known)
        turn += 1
        promise = _promise(axes, model, known, left, is_near=turn % 2 == 1)
        order = sorted(range(len(left)), key=lambda n: (-promise[n], left[n].place))
        batch = [left[n] for n in order[: max(1, len(known) // SHARE)]]


def _promise(
    axes: Axes,
    model: Surrogate,
    known: Sequence[tuple[Candidate, float]],
    left: Sequence[Candidate],
    is_near: bool,
) -> Array:
    mean, deviation = model.predict(left)
    best, least = min(known, key=lambda pair: (pair[1], pair[0].place))
    if is_near:
        near = np.array([axes.distance(each, best) == 1 for each in left])
        if near.any():
            return np.where(near, HOPE * deviation - mean, -np.inf)
    return expected_improvement(mean, deviation, math.log(least))


def expectation(
    axes: Axes, space: Sequence[Candidate], others: Sequence[Known]
) -> dict[str, float] | None:
    """The logarithmic slowdown of each candidate that other keys let expect, by key.

    A model for each of them tells of what was not tried for it; the nearest one counts most.

    Returns:
        None if nothing is known of others.
    """
    by_key = {each.key: each for each in space}
    total, weights = np.zeros(len(space)), 0.0
    for rank, other in enumerate(others[:MOST_OTHERS], start=1):
        own = {key: cost for key, cost in other.items() if key in by_key}
        known = costs_with_penalty(own, by_key, PENALTY)
        if len(known) < 2:
            continue
        mean, _ = Surrogate(axes, known).predict(space)
        told = {each.key: math.log(cost) for each, cost in known}
        logarithms = np.array([told.get(each.key, m) for each, m in zip(space, mean, strict=True)])
        total += (logarithms - logarithms.min()) / rank
        weights += 1 / rank
    if not weights:
        return None
    return {each.key: float(t) for each, t in zip(space, total / weights, strict=True)}


def _best(
    space: Sequence[Candidate], prior: Mapping[str, float], count: int
) -> Sequence[Candidate]:
    return sorted(space, key=lambda each: (prior[each.key], each.place))[:count]


def spread(space: Sequence[Candidate], count: int, seed: int) -> list[Candidate]:
    """So many candidates, the first one included, no two of which are close to each other.

    Of random choices the one whose closest pair is farthest apart.
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
