"""The guided search finds good candidates early and tries each candidate once."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
import triton
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.tuner.search.guided import FIRST, FIRST_BY_OTHERS, LEADING, guided, spread
from ttools.tuner.search.regret import regret_bound
from ttools.tuner.search.surrogate import Axes, capped_costs
from ttools.tuner.space.candidate import Candidate, candidates


def space_of(blocks: int, warps: int) -> list[Candidate]:
    return candidates(
        [
            triton.Config({"BM": 16 << m, "BN": 16 << n}, num_warps=1 << w)
            for m in range(blocks)
            for n in range(blocks)
            for w in range(warps)
        ]
    )


def cost(candidate: Candidate) -> float | None:
    """Return a time like a matrix product's: lowest in the middle, None for too large tiles."""
    values = candidate.values
    m, n, w = (math.log2(values[name]) for name in ("BM", "BN", "num_warps"))
    if m + n > 15:
        return None
    return 1 + 0.3 * (m - 7) ** 2 + 0.2 * (n - 6) ** 2 + 0.1 * (w - (m + n - 9) / 2) ** 2


def shuffled(space: list[Candidate], trials: int, seed: int) -> list[Candidate]:
    return random.Random(seed).sample(space, len(space))[:trials]


def tried(space: list[Candidate], trials: int, seed: int) -> list[Candidate]:
    search = guided(space, seed)
    order: list[Candidate] = []
    batch = next(search)
    while batch and len(order) < trials:
        order += batch
        try:
            batch = search.send([cost(candidate) for candidate in batch])
        except StopIteration:
            break
    return order[:trials]


def test_good_candidates_of_other_keys_come_first_unless_they_are_bad() -> None:
    space = space_of(6, 5)
    right = {config.key: cost(config) for config in space[::3]}
    best = min(space, key=lambda each: cost(each) or math.inf)
    search = guided(space, 0, [right])
    first = next(search)
    assert len(first) == FIRST_BY_OTHERS
    assert min(cost(candidate) or math.inf for candidate in first) <= 1.2 * (cost(best) or math.inf)
    opposite = {key: None if time is None else 1 / time for key, time in right.items()}
    search = guided(space, 0, [opposite])
    order: list[Candidate] = []
    batch = next(search)
    while len(order) < len(space) // 4:
        order += batch
        batch = search.send([cost(candidate) for candidate in batch])
    assert min(cost(candidate) or math.inf for candidate in order) <= 1.3 * (cost(best) or math.inf)


def test_candidates_with_low_static_costs_come_first_unless_they_are_bad() -> None:
    space = space_of(6, 5)
    best = min(cost(config) or math.inf for config in space)
    hints = {config.key: math.log(cost(config) or 9.0) for config in space}
    search = guided(space, 0, (), lambda: hints)
    first = next(search)
    assert len(first) == FIRST
    assert [cost(candidate) for candidate in first[:LEADING]] == sorted(
        c for s in space if (c := cost(s))
    )[:LEADING]
    opposite = {key: -hint_value for key, hint_value in hints.items()}
    # Candidates without a hint count as neither good nor bad.
    for hint in (opposite, dict(list(hints.items())[:20])):
        search = guided(space, 0, (), lambda hint=hint: hint)  # type: ignore[misc]
        order: list[Candidate] = []
        batch = next(search)
        while len(order) < len(space) // 4:
            order += batch
            batch = search.send([cost(candidate) for candidate in batch])
        assert min(cost(candidate) or math.inf for candidate in order) <= 1.3 * best


def test_costs_are_capped_and_failures_count_as_the_cap() -> None:
    space = space_of(2, 1)
    by_key = {config.key: config for config in space}
    costs = dict(zip(by_key, (2.0, 100.0, None, 3.0), strict=True))
    assert [c for _, c in capped_costs(costs, by_key, 3.0)] == [2.0, 6.0, 6.0, 3.0]
    assert capped_costs({space[0].key: None}, by_key, 3.0) == []


def test_zero_costs_count_as_the_smallest_positive_cost() -> None:
    space = space_of(2, 1)
    by_key = {config.key: config for config in space}
    costs = dict(zip(by_key, (0.0, 100.0, None, 3.0), strict=True))
    assert [c for _, c in capped_costs(costs, by_key, 3.0)] == [3.0, 9.0, 9.0, 3.0]
    assert all(c > 0 for _, c in capped_costs(dict.fromkeys(by_key, 0.0), by_key, 3.0))


def regret(search: Callable[..., list[Candidate]], seed: int) -> float:
    """Return the relative regret of a search that tries a quarter of the candidates."""
    space = space_of(6, 5)
    costs = [cost(candidate) for candidate in search(space, len(space) // 4, seed)]
    best = min(c for config in space if (c := cost(config)) is not None)
    return min(c for c in costs if c is not None) / best - 1


@pytest.mark.slow
def test_a_quarter_of_the_space_nearly_suffices() -> None:
    seeds = range(2)
    assert max(regret(tried, seed) for seed in seeds) < 0.11
    mean = sum(regret(tried, seed) for seed in seeds) / len(seeds)
    assert mean < sum(regret(shuffled, seed) for seed in seeds) / len(seeds) / 3


@pytest.mark.slow
@settings(max_examples=8)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 99))
def test_each_candidate_is_tried_once_and_equal_seeds_agree(
    blocks: int, warps: int, seed: int
) -> None:
    space = space_of(blocks, warps)
    order = tried(space, len(space) + 1, seed)
    assert sorted(candidate.index for candidate in order) == list(range(len(space)))
    assert [candidate.index for candidate in tried(space, len(space), seed)] == [
        e.index for e in order
    ]


def test_axes_are_ordered_and_omit_constant_parameters() -> None:
    configs = [triton.Config({"A": a, "MODE": m}) for a, m in ((64, "x"), (16, "y"), (32, "x"))]
    space = candidates(configs)
    axes = Axes(space)
    assert axes.values == {"A": [16, 32, 64], "MODE": ["x", "y"]}
    assert axes.ranks(space[0]) == {"A": 2, "MODE": 0}
    assert axes.points(space).tolist() == [[1.0, 0.0], [0.0, 1.0], [0.5, 0.0]]


def test_work_per_warp_is_an_additional_axis() -> None:
    configs = [triton.Config({"A": a}, num_warps=w) for a in (64, 128) for w in (1, 2)]
    space = candidates(configs)
    axes = Axes(space)
    assert axes.count == 3
    assert axes.points(space).tolist() == [[0, 0, 0.5], [0, 1, 0], [1, 0, 1], [1, 1, 0.5]]
    assert Axes(space[::2]).count == 1
    assert Axes([]).count == 0


def test_neighbours_differ_in_one_parameter_or_by_one_step_in_two() -> None:
    space = space_of(4, 4)
    axes = Axes(space)
    by_ranks = {tuple(axes.ranks(config).values()): config for config in space}
    are_near = axes.are_near(axes.all_ranks(space), by_ranks[1, 1, 1])
    near = [tuple(axes.ranks(space[n]).values()) for n in are_near.nonzero()[0]]
    single = {(n, 1, 1) for n in (0, 2, 3)} | {(1, n, 1) for n in (0, 2, 3)}
    single |= {(1, 1, n) for n in (0, 2, 3)}
    steps = {p for p in by_ranks if sorted(abs(n - 1) for n in p) == [0, 1, 1]}
    assert set(near) == single | steps


def test_spread_candidates_include_the_first_and_are_far_apart() -> None:
    space = space_of(6, 5)
    chosen = [config.index for config in spread(space, 8, seed=3)]
    assert chosen[0] == 0
    assert len(set(chosen)) == 8
    assert [config.index for config in spread(space, 8, seed=3)] == chosen
    points = Axes(space).points([space[place] for place in chosen])
    gaps = [abs(a - b).max() for n, a in enumerate(points) for b in points[:n]]
    assert min(gaps) >= 0.2
    assert len(spread(space[:5], 8, seed=0)) == 5


def test_the_bound_decreases_to_zero_when_all_are_tried() -> None:
    space = space_of(5, 4)
    costs = {config.key: c for config in space if (c := cost(config)) is not None}
    best = min(costs.values())
    some = dict(list(costs.items())[:: len(costs) // 12])
    assert regret_bound(space, dict(list(costs.items())[:7])) == math.inf
    assert regret_bound(space, some) >= min(some.values()) / best - 1
    assert regret_bound(space, costs, tried=len(space)) == 0.0
    order = shuffled(space, 60, 0)
    measured = [
        {candidate.key: costs[candidate.key] for candidate in order[:n] if candidate.key in costs}
        for n in (20, 60)
    ]
    assert regret_bound(space, measured[1]) < regret_bound(space, measured[0])
