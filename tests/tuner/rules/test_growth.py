"""Trees as they grow: the best question first, smaller trees as the beginning of larger ones."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.tuner.rules.features import Feature
from ttools.tuner.rules.growth import Node, followed, grown
from ttools.tuner.rules.synthesis import threshold

NUMBERS = st.integers(0, 6).map(float)


def halfway(question: int, below: float, above: float) -> float:
    return (below + above) / 2


def leaves_of(node: Node) -> list[Node]:
    if node.below is None or node.above is None:
        return [node]
    return leaves_of(node.below) + leaves_of(node.above)


def spread(slowdowns: np.ndarray, members: np.ndarray) -> float:
    own = slowdowns[members]
    return float(((own - own.mean(axis=0)) ** 2).sum())


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=9),
    st.integers(1, 5),
)
def test_the_first_question_is_the_best_of_all(
    rows: list[tuple[float, float, float, float]], leaves: int
) -> None:
    table = np.array(rows)
    answers, slowdowns = table[:, :2], table[:, 2:]
    tree = grown(answers, slowdowns, 5, halfway)
    everyone = np.arange(len(rows))
    # ---- naively: all questions, all limits
    gains = [0.0]
    for question in range(2):
        for limit in {row[question] for row in rows}:
            below = answers[:, question] <= limit
            if not below.all():
                left = spread(slowdowns, everyone[below]) + spread(slowdowns, everyone[~below])
                gains.append(spread(slowdowns, everyone) - left)
    if tree.below is None or tree.above is None:
        assert max(gains) < 1e-6
    else:
        left = spread(slowdowns, tree.below.members) + spread(slowdowns, tree.above.members)
        assert abs(spread(slowdowns, everyone) - left - max(gains)) < 1e-6
    # ---- a tree of fewer leaves is the beginning of a larger one
    smaller = grown(answers, slowdowns, leaves, halfway)
    assert len(leaves_of(smaller)) <= leaves
    for own in answers:
        assert followed(tree, own, leaves) == followed(smaller, own, leaves)
    for node in leaves_of(tree):
        means = slowdowns[node.members].mean(axis=0)
        assert means[node.best] == means.min()


@given(st.integers(0, 10_000), st.integers(1, 10_000))
def test_a_threshold_parts_the_answers(below: int, more: int) -> None:
    above = below + more
    for kind in ("number", "product", "waves"):
        names = ("n",) if kind == "number" else ("n", "m")
        found = threshold(Feature(kind, names, (1, 1)), below, above)  # type: ignore[arg-type]
        assert below <= found < above
        assert found == int(found)
    shares = below / 20_000, (below + more) / 20_000
    assert shares[0] <= threshold(Feature("fill", ("n",), (1,)), *shares) < shares[1]


def test_three_quarters_of_a_power_of_two_belong_to_the_smaller_one() -> None:
    assert threshold(Feature("number", ("n",)), 2048, 4096) == 3072
    assert threshold(Feature("number", ("n",)), 100, 10_000) == 1000
    assert threshold(Feature("waves", ("n",), (64,)), 2, 4) == 2
