"""Search guided by a model of what was measured, here and for other keys of the kernel.

Owns which candidates come first and how many are proposed together; the model is `surrogate`'s.
Must not know what a cost is.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from ttools.tuner.search.surrogate import (
    Array,
    Axes,
    Surrogate,
    capped_costs,
    expected_improvement,
    load_model,
)
from ttools.tuner.space.candidate import Candidate

#: Costs of candidates, by key; None for those that cannot win.
Known: TypeAlias = "Mapping[str, float | None]"
#: Logarithmic costs that compilation lets expect, by key, where it does; may wait for it.
Hint: TypeAlias = "Callable[[], Mapping[str, float]]"

#: Candidates tried before the model has a say: spread over the space.
FIRST = 4
#: If compilation says what to expect: so many of them are its best, the others spread over its
#: better half.
LEADING = 2
#: The same if other keys are known: those that should be best by them.
FIRST_BY_OTHERS = 4
#: Of the other keys so many, the nearest ones, have a say.
MOST_OTHERS = 4
#: Candidates proposed together are one for so many that were tried, at least one.
SHARE = 12
#: By how much what is known must grow until the model's lengths are found anew.
GROWTH = 1.3
#: What cannot win, or is slower by more, counts as so many times as slow as the best. How bad the
#: bad ones are says nothing about the good ones, and would make the model rough.
CAP = 3.0
#: Deviations by which a neighbour may be better than the model's mean says.
HOPE = 0.5
#: Random choices of first candidates, of which the most spread one is taken.
_DRAWS = 200


def no_hint() -> Mapping[str, float]:
    """Nothing is known."""
    return {}


def guided(
    space: Sequence[Candidate],
    seed: int,
    others: Sequence[Known] = (),
    hint: Hint = no_hint,
) -> Generator[Sequence[Candidate], list[float | None], None]:
    """Those that should be good or are spread over the space, then where most is expected.

    Alternately the largest expected improvement of all, and the largest near the best: of those
    that differ from it in a single parameter, or in two by a step each.

    Args:
        space: the candidates.
        seed: of random choices.
        others: costs of the candidates for other keys of the kernel, the nearest first.
        hint: what compiling them lets expect; counts as one more key, the farthest.
    """
    axes = Axes(space)
    by_key = {each.key: each for each in space}
    if hint is not no_hint:  # it may wait
        threading.Thread(target=load_model, daemon=True).start()
    hinted = hint()
    prior = expectation(axes, space, others, hinted)
    costs: dict[str, float | None] = {}
    model, fitted, step = None, 0, 0
    batch: Sequence[Candidate]
    if prior is None:
        batch = spread(space, FIRST, seed)
    elif others:
        batch = _best(space, prior, FIRST_BY_OTHERS)
    else:
        batch = _led(space, prior, seed)
    while batch:
        measured = yield batch
        costs.update((each.key, cost) for each, cost in zip(batch, measured, strict=True))
        left = [each for each in space if each.key not in costs]
        known = capped_costs(costs, by_key, CAP)
        if len(known) < 2 or not left:
            batch = left[:1]
            continue
        again = len(known) < fitted * GROWTH
        model = Surrogate(axes, known, like=model if again else None, prior=prior)
        fitted = fitted if again else len(known)
        step += 1
        improvement = _expected_improvement(axes, model, known, left, is_near=step % 2 == 1)
        order = sorted(range(len(left)), key=lambda n: (-improvement[n], left[n].index))
        batch = [left[n] for n in order[: max(1, len(known) // SHARE)]]


def _expected_improvement(
    axes: Axes,
    model: Surrogate,
    known: Sequence[tuple[Candidate, float]],
    left: Sequence[Candidate],
    is_near: bool,
) -> Array:
    mean, deviation = model.predict(left)
    best, least = min(known, key=lambda pair: (pair[1], pair[0].index))
    if is_near:
        near = np.array([axes.are_near(each, best) for each in left])
        if near.any():
            return np.where(near, HOPE * deviation - mean, -np.inf)
    return expected_improvement(mean, deviation, math.log(least))


def expectation(
    axes: Axes,
    space: Sequence[Candidate],
    others: Sequence[Known],
    hinted: Mapping[str, float] | None = None,
) -> dict[str, float] | None:
    """The logarithmic slowdown of each candidate that other keys let expect, by key.

    A model for each of them predicts what was not tried for it; the nearest one counts most, and
    least what compiling the candidates lets expect.

    Returns:
        None if nothing is known.
    """
    by_key = {each.key: each for each in space}
    total, weights = np.zeros(len(space)), 0.0
    for rank, other in enumerate(others[:MOST_OTHERS], start=1):
        own = {key: cost for key, cost in other.items() if key in by_key}
        known = capped_costs(own, by_key, CAP)
        if len(known) < 2:
            continue
        mean, _ = Surrogate(axes, known).predict(space)
        measured = {each.key: math.log(cost) for each, cost in known}
        pairs = zip(space, mean, strict=True)
        logarithms = np.array([measured.get(each.key, m) for each, m in pairs])
        total += (logarithms - logarithms.min()) / rank
        weights += 1 / rank
    if hinted:
        weight = 1 / (1 + min(len(others), MOST_OTHERS))
        total += weight * np.array([hinted.get(each.key, 0.0) for each in space])
        weights += weight
    if not weights:
        return None
    return {each.key: float(t) for each, t in zip(space, total / weights, strict=True)}


def _best(
    space: Sequence[Candidate], prior: Mapping[str, float], count: int
) -> Sequence[Candidate]:
    return sorted(space, key=lambda each: (prior[each.key], each.index))[:count]


def _led(space: Sequence[Candidate], prior: Mapping[str, float], seed: int) -> list[Candidate]:
    order = _best(space, prior, len(space))
    leading, half = order[:LEADING], order[LEADING : max(FIRST + 1, len(order) // 2)]
    return [*leading, *spread([order[0], *half], 1 + FIRST - LEADING, seed)[1:]]


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
