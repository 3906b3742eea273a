"""A large space is searched by samples, so that a choice costs no more in a larger space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import triton

from ttools.tuner.search import surrogate
from ttools.tuner.search.guided import FIRST, LOOKED_AT, Expectation, Looks, guided
from ttools.tuner.search.regret import regret_bound
from ttools.tuner.search.surrogate import MOST_MODELLED, Axes, Surrogate
from ttools.tuner.space.candidate import Candidate, candidates

NAMES = ("A", "B", "C", "D")
#: Index of the best candidate on each axis.
BEST = (7, 11, 4, 15)
SIDE = 18


@pytest.fixture(scope="module")
def space() -> list[Candidate]:
    """Return 18⁴ candidates, about 10^5."""
    values = np.indices((SIDE,) * len(NAMES)).reshape(len(NAMES), -1).T.tolist()
    return candidates(triton.Config(dict(zip(NAMES, value, strict=True))) for value in values)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of candidates in the calls of the model and of the axes."""
    sizes: list[int] = []
    points = Axes.points

    def counted(self: Axes, chosen: Sequence[Candidate]) -> Any:
        sizes.append(len(chosen))
        return points(self, chosen)

    monkeypatch.setattr(surrogate.Axes, "points", counted)
    return sizes


def cost(candidate: Candidate) -> float:
    apart = [(candidate.values[n] - at) / SIDE for n, at in zip(NAMES, BEST, strict=True)]
    return math.exp(2 * sum(a * a for a in apart) + apart[0] * apart[1])


def near_most(axes: int) -> int:
    """Return the maximum number of neighbours of a candidate."""
    return axes * (SIDE - 1) + 4 * axes * (axes - 1) // 2


@pytest.mark.slow
def test_a_choice_considers_a_part_and_finds_the_best(
    space: list[Candidate], looked_at: list[int]
) -> None:
    search = guided(space, 0)
    batch = next(search)
    assert len(batch) == FIRST
    assert batch[0] is space[0]
    assert sum(looked_at) <= LOOKED_AT + 1, "before the first trial"
    measured: dict[str, float] = {}
    while len(measured) < 48:
        assert not measured.keys() & {candidate.key for candidate in batch}
        measured |= {candidate.key: cost(candidate) for candidate in batch}
        batch = search.send([cost(candidate) for candidate in batch])
    assert max(looked_at) <= LOOKED_AT + near_most(len(NAMES))
    assert min(measured.values()) <= 1.01 * min(map(cost, space))


def test_equal_seeds_agree_and_others_do_not(space: list[Candidate]) -> None:
    first, again, third = (
        [candidate.index for candidate in next(guided(space, seed))] for seed in (3, 3, 4)
    )
    assert first == again != third


def test_all_neighbours_of_the_best_are_considered_until_they_are_tried(
    space: list[Candidate],
) -> None:
    axes = Axes(space)
    looks = Looks(space, axes, 0)
    best = space[-1]
    near = {
        config.key
        for config in space
        if sum(config.values[n] != best.values[n] for n in NAMES) == 1
        or sorted(best.values[n] - config.values[n] for n in NAMES) == [0, 0, 1, 1]
    }
    assert len(near) == len(NAMES) * (SIDE - 1) + 6
    tried_neighbour = min(near)
    remaining = {
        candidate.key for candidate in looks.left({best.key: 1.0, tried_neighbour: 2.0}, best)
    }
    assert near - remaining == {tried_neighbour}
    assert best.key not in remaining
    assert LOOKED_AT - 2 <= len(remaining) <= LOOKED_AT + len(near)
    assert remaining != {candidate.key for candidate in looks.left({}, best)}, (
        "each choice draws other candidates"
    )


def test_costs_of_other_keys_are_computed_for_considered_candidates_only(
    space: list[Candidate], looked_at: list[int]
) -> None:
    costs = {config.key: cost(config) for config in space[:: len(space) // 30]}
    prior = Expectation(Axes(space), space, [costs], {}, space[:100])
    assert prior.is_known
    before = len(looked_at)
    first = prior(space[:50])
    assert looked_at[before:] == [50]
    assert prior(space[:50]).tolist() == first.tolist()
    assert len(looked_at) == before + 1, "the result is cached"
    search = guided(space, 0, [costs])
    order = list(next(search))
    assert min(map(cost, order)) <= 1.3 * min(map(cost, space))
    assert max(looked_at) <= LOOKED_AT + 1


def test_the_model_uses_the_best_and_some_of_many_costs(
    space: list[Candidate], looked_at: list[int]
) -> None:
    chosen = space[:: len(space) // (MOST_MODELLED + 500)]
    costs = [(config, cost(config)) for config in chosen]
    model = Surrogate(Axes(space), costs)
    assert looked_at == [MOST_MODELLED]
    best = min(chosen, key=cost)
    mean, _ = model.predict([best])
    assert abs(mean[0] - math.log(cost(best))) < 0.05


def test_the_bound_covers_all_candidates_in_parts(
    space: list[Candidate], looked_at: list[int]
) -> None:
    costs = {config.key: cost(config) for config in space[:: len(space) // 40]}
    bound = regret_bound(space, costs)
    assert bound >= min(costs.values()) / min(map(cost, space)) - 1
    assert max(looked_at) <= LOOKED_AT
    assert sum(looked_at) == len(space), "the tried candidates, and each of the others once"
