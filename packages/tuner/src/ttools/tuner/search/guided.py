"""Search guided by a model of what was measured, here and for other keys of the kernel.

Owns which candidates come first and how many are proposed together; the model is `surrogate`'s.
Must not know what a cost is.
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
#: Of a larger space, so many candidates are looked at for each choice, with those near the best.
LOOKED_AT = 10_000
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
    if hint is not no_hint:  # it may wait
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
        for each, cost in zip(batch, measured, strict=True):
            costs[each.key], tried[each.key] = cost, each
        known = capped_costs(costs, tried, CAP)
        left = looks.left(costs, _least(known)[0] if known else None)
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


class Looks:
    """Which candidates are looked at for a choice: all, or of a large space some.

    Those are drawn anew each time, and all that are near the best one are among them, so that no
    candidate is out of reach, while a choice takes as long as in a space of `LOOKED_AT`.

    Args:
        space: the candidates.
        axes: of the space.
        seed: of random choices.

    Attributes:
        first: those looked at before any is tried; the first of the space is the first of them.
    """

    def __init__(self, space: Sequence[Candidate], axes: Axes, seed: int) -> None:
        self._space, self._axes = space, axes
        self._draw = random.Random(seed)
        self._is_large = len(space) > LOOKED_AT
        self.first = space if not self._is_large else [space[0], *self._drawn()]

    def left(self, costs: Known, best: Candidate | None) -> list[Candidate]:
        """Those of which the next ones are chosen.

        Args:
            costs: of what was tried.
            best: the best one of these, if any can win.
        """
        if not self._is_large:
            return [each for each in self._space if each.key not in costs]
        seen = {each.index: each for each in self._drawn()}
        if best is not None:
            near = self._axes.are_near(self._ranks, best)
            seen |= {(each := self._space[n]).index: each for n in np.flatnonzero(near).tolist()}
        return [each for _, each in sorted(seen.items()) if each.key not in costs]

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
    """The logarithmic slowdown of candidates that other keys let expect.

    A model for each of them predicts what was not tried for it; the nearest one counts most, and
    least what compiling the candidates lets expect.

    Args:
        axes: of the space.
        space: the candidates.
        others: see `guided`.
        hinted: what compilation lets expect, by key.
        first: candidates whose least counts as no slowdown.

    Attributes:
        is_known: whether there is anything to go by.
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
        by_key = {each.key: each for each in space if each.key in wanted} if wanted else {}
        for rank, other in enumerate(nearest, start=1):
            own = {key: cost for key, cost in other.items() if key in by_key}
            known = capped_costs(own, by_key, CAP)
            if len(known) >= 2:
                measured = {each.key: math.log(cost) for each, cost in known}
                self._models.append((1 / rank, Surrogate(axes, known), measured, 0.0))
        self._weight = 1 / (1 + len(nearest)) if hinted else 0.0
        self._weights = sum(weight for weight, *_ in self._models) + self._weight
        self.is_known = self._weights > 0
        self._found: dict[str, float] = {}
        self._models = [
            (weight, model, measured, float(_logarithms(model, measured, first).min()))
            for weight, model, measured, _ in self._models
        ]

    def __call__(self, candidates: Sequence[Candidate]) -> Array:
        """Of each of them."""
        if not self.is_known:
            return np.zeros(len(candidates))
        new = [each for each in candidates if each.key not in self._found]
        if new:
            total = np.zeros(len(new))
            for weight, model, measured, least in self._models:
                total += (_logarithms(model, measured, new) - least) * weight
            if self._hinted:
                total += self._weight * np.array([self._hinted.get(e.key, 0.0) for e in new])
            found = total / self._weights
            self._found |= {each.key: float(t) for each, t in zip(new, found, strict=True)}
        return np.array([self._found[each.key] for each in candidates])


def _logarithms(
    model: Surrogate, measured: Mapping[str, float], candidates: Sequence[Candidate]
) -> Array:
    mean, _ = model.predict(candidates)
    return np.array([measured.get(e.key, m) for e, m in zip(candidates, mean, strict=True)])


def _best(space: Sequence[Candidate], prior: Expectation, count: int) -> Sequence[Candidate]:
    ordered = sorted(zip(prior(space), space, strict=True), key=lambda p: (p[0], p[1].index))
    return [each for _, each in ordered[:count]]


def _led(space: Sequence[Candidate], prior: Expectation, seed: int) -> list[Candidate]:
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
