"""Search guided by a model of what was measured: those of the greatest expected improvement next.

Owns which candidates come first and how many are proposed together; the model is `surrogate`'s.
Must not know what a cost is.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Sequence

import numpy as np

from ttools.tuner.surrogate import Array, Axes, Surrogate, costs_with_penalty, expected_improvement
from ttools.tuner.trial import Candidate

#: Candidates tried before the model has a say: spread over the space.
FIRST = 6
#: Candidates proposed from the same model, so that they can be compiled together; later one for so
#: many that were tried.
TOGETHER, SHARE = 3, 8
#: By how much what is known must grow until the model's lengths are found anew.
GROWTH = 1.3
#: What cannot win counts as so many times the worst that can.
PENALTY = 2.0
#: Random choices of first candidates, of which the most spread one is taken.
_DRAWS = 200


def guided(
    space: Sequence[Candidate], seed: int
) -> Generator[Sequence[Candidate], list[float | None], None]:
    """The first and others spread over the space, then what promises most, until all are tried."""
    axes = Axes(space)
    by_key = {each.key: each for each in space}
    costs: dict[str, float | None] = {}
    model, fitted = None, 0
    batch = spread(space, FIRST, seed)
    while batch:
        told = yield batch
        costs.update((each.key, cost) for each, cost in zip(batch, told, strict=True))
        left = [each for each in space if each.key not in costs]
        known = costs_with_penalty(costs, by_key, PENALTY)
        if len(known) < 2 or not left:
            batch = left[:TOGETHER]
            continue
        again = len(known) < fitted * GROWTH
        model = Surrogate(axes, known, like=model if again else None)
        fitted = fitted if again else len(known)
        promise = _promise(model, known, left)
        order = sorted(range(len(left)), key=lambda n: (-promise[n], left[n].place))
        batch = [left[n] for n in order[: max(TOGETHER, len(known) // SHARE)]]


def _promise(
    model: Surrogate, known: Sequence[tuple[Candidate, float]], left: Sequence[Candidate]
) -> Array:
    mean, deviation = model.predict(left)
    return expected_improvement(mean, deviation, math.log(min(cost for _, cost in known)))


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
