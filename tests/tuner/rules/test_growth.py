"""Decision trees agree with a naive search for the best question; of equal ones, the first wins."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.tuner.rules.features import Feature
from ttools.tuner.rules.growth import TreeNode, followed, grown
from ttools.tuner.rules.synthesis import threshold

MOST_LEAVES = 6


def halfway(question: int, below: float, above: float) -> float:
    return (below + above) / 2


def unknown(slowdowns: np.ndarray) -> float:
    return float(((slowdowns - slowdowns.mean(axis=0)) ** 2).sum())


def best_question(answers: np.ndarray, slowdowns: np.ndarray) -> tuple[float, int, float]:
    """Return the largest gain over all questions and limits, its question and its limit."""
    best = (0.0, -1, 0.0)
    for question, column in enumerate(answers.T):
        values = sorted(set(column))
        for least, next_one in itertools.pairwise(values):
            below = column <= least
            remaining = unknown(slowdowns[below]) + unknown(slowdowns[~below])
            gain = round(unknown(slowdowns) - remaining, 9)
            if gain > best[0]:
                best = gain, question, halfway(question, least, next_one)
    return best


def naively_grown(answers: np.ndarray, slowdowns: np.ndarray, most_leaves: int) -> TreeNode:
    """Grow a tree by the best question of all leaves; of equal questions, the first wins."""

    def node(members: np.ndarray) -> tuple[TreeNode, np.ndarray, tuple[float, int, float]]:
        best = int(slowdowns[members].mean(axis=0).argmin())
        return TreeNode(best=best), members, best_question(answers[members], slowdowns[members])

    root = node(np.arange(len(answers)))
    frontier = [root]
    for order in range(1, most_leaves):
        taken = max(frontier, key=lambda item: item[2][0])
        split, members, (gain, question, limit) = taken
        if not gain:
            break
        frontier = [item for item in frontier if item is not taken]
        split.question, split.limit, split.order = question, limit, order
        is_below = answers[members, question] <= limit
        parts = [node(members[is_below]), node(members[~is_below])]
        split.below, split.above = parts[0][0], parts[1][0]
        frontier += parts
    return root[0]


@pytest.mark.parametrize("seed", range(100))
def test_trees_agree_with_the_naive_ones(seed: int) -> None:
    """Use answers with ties and repeated or reversed questions; slowdowns have no ties."""
    draw = np.random.default_rng(seed)
    launches, configs = draw.integers(1, 25), draw.integers(1, 5)
    own = draw.integers(0, draw.choice([3, 50, 10**12]), (launches, draw.integers(1, 4)))
    answers = np.column_stack([own, own * 3, own.max() - own, np.minimum(own, 2)]).astype(float)
    slowdowns = draw.random((launches, configs))
    tree = grown(answers, slowdowns, MOST_LEAVES, halfway)
    assert tree == naively_grown(answers, slowdowns, MOST_LEAVES)


@pytest.mark.parametrize("seed", range(50))
def test_a_smaller_tree_is_the_start_of_a_larger_one(seed: int) -> None:
    draw = np.random.default_rng(seed)
    answers = draw.integers(0, 6, (12, 3)).astype(float)
    # Any of several equal questions may be asked.
    slowdowns = draw.integers(0, 3, (12, 3)).astype(float)
    larger = grown(answers, slowdowns, MOST_LEAVES, halfway)
    for leaves in range(2, MOST_LEAVES):
        smaller = grown(answers, slowdowns, leaves, halfway)
        for answer in answers:
            assert followed(larger, answer, leaves) == followed(smaller, answer, MOST_LEAVES)


@given(st.integers(0, 10_000), st.integers(1, 10_000))
def test_a_threshold_separates_the_answers(below: int, more: int) -> None:
    above = below + more
    for kind in ("number", "product", "waves"):
        names = ("n",) if kind == "number" else ("n", "m")
        limit = threshold(Feature(kind, names, (1, 1)), below, above)  # type: ignore[arg-type]
        assert below <= limit < above
        assert limit == int(limit)
    shares = below / 20_000, (below + more) / 20_000
    assert shares[0] <= threshold(Feature("fill", ("n",), (1,)), *shares) < shares[1]


def test_three_quarters_of_a_power_of_two_belong_to_the_smaller_one() -> None:
    assert threshold(Feature("number", ("n",)), 2048, 4096) == 3072
    assert threshold(Feature("number", ("n",)), 100, 10_000) == 1000
    assert threshold(Feature("waves", ("n",), (64,)), 2, 4) == 2
