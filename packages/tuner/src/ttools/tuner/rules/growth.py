"""Grows a decision tree: questions whose answers part launches that want different configurations.

Owns what is asked of scikit-learn's regression tree, which lowers the squares of what is left
unknown of all configurations' slowdowns: of equal questions the first is asked, and the best
question anywhere is asked next, so a tree of fewer leaves is the beginning of one of more. Must not
know what the questions are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

#: The limit of a question, of the greatest answer below and the least above.
Limits = Callable[[int, float, float], float]
#: A question that lowers the squares by less is not asked: that much is rounding.
_LEAST_GAIN = 5e-10


@dataclass(kw_only=True)
class TreeNode:
    """A part of the launches.

    Attributes:
        best: the configuration with the least slowdown on average.
        question: its index, if one is asked.
        limit: the answers of `below` are at most that, those of `above` more.
        order: which question of the whole tree it is, from 1 on.
        below: the part whose answers are at most the limit.
        above: the other.
    """

    best: int
    question: int = -1
    limit: float = 0.0
    order: int = 0
    below: TreeNode | None = None
    above: TreeNode | None = None


def grown(answers: Numbers, slowdowns: Numbers, most_leaves: int, limits: Limits) -> TreeNode:
    """Grows a tree.

    Args:
        answers: of each launch (row) to each question (column).
        slowdowns: of each launch (row) in each configuration (column).
        most_leaves: of the tree, at least two.
        limits: asked for each question of the tree.
    """
    from sklearn.tree import DecisionTreeRegressor  # takes a second, and choosing does without

    # Ranks are exact in the 32 bits that scikit-learn has for an answer.
    ranks = np.column_stack([np.unique(each, return_inverse=True)[1] for each in answers.T])
    tree: Any = DecisionTreeRegressor(
        max_leaf_nodes=most_leaves,
        min_impurity_decrease=_LEAST_GAIN / slowdowns.size,
        random_state=0,
    )
    tree = tree.fit(ranks, slowdowns).tree_

    def node(number: int, members: NDArray[np.intp]) -> TreeNode:
        found = TreeNode(best=int(slowdowns[members].mean(axis=0).argmin()))
        left, right = int(tree.children_left[number]), int(tree.children_right[number])
        if left < 0:
            return found
        parts = ranks[members, tree.feature[number]] <= tree.threshold[number]
        own = answers[members]
        found.question, is_below = _first_to_part(own, parts)
        if is_below[0] != parts[0]:
            left, right = right, left
        answer = own[:, found.question]
        below, above = float(answer[is_below].max()), float(answer[~is_below].min())
        found.limit = limits(found.question, below, above)
        found.order = (min(left, right) + 1) // 2  # nodes are numbered as they are made, by pairs
        found.below = node(left, members[is_below])
        found.above = node(right, members[~is_below])
        return found

    return node(0, np.arange(len(answers)))


def _first_to_part(answers: Numbers, parts: NDArray[np.bool_]) -> tuple[int, NDArray[np.bool_]]:
    """The first question whose answers part launches in the same two, and which are below.

    scikit-learn takes any of them.
    """
    one, other = answers[parts], answers[~parts]
    is_below = one.max(axis=0) < other.min(axis=0)
    question = int((is_below | (other.max(axis=0) < one.min(axis=0))).argmax())
    return question, parts if is_below[question] else ~parts


def followed(node: TreeNode, answers: Sequence[float] | Numbers, leaves: int) -> int:
    """The configuration that the tree of so many leaves chooses for a launch."""
    while 0 < node.order < leaves:
        is_below = answers[node.question] <= node.limit
        part = node.below if is_below else node.above
        assert part is not None
        node = part
    return node.best
