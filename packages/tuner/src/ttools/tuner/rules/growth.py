"""Growth of a decision tree that assigns configurations to launches.

scikit-learn's regression tree is fitted to the slowdowns of all configurations, which reduces the
sum of their squared deviations. It grows best first: each step makes the split with the greatest
reduction. Therefore a tree with fewer leaves is a prefix of a tree with more leaves, and one fit
provides trees of all sizes.

A question is a feature that a node compares with a threshold; its answer for a launch is the
feature's value. If several questions split the launches in the same way, the first one is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

#: A function that returns the threshold of a question, given the largest measured answer below the
#: threshold and the smallest one above it.
Limits = Callable[[int, float, float], float]
#: A split must reduce the sum of squares by at least this much, because smaller reductions may be
#: rounding errors.
_LEAST_GAIN = 5e-10


@dataclass(kw_only=True)
class TreeNode:
    """A node of the tree, which covers some of the launches.

    Attributes:
        best: Index of the configuration with the lowest mean slowdown.
        question: Index of the question that splits the node; -1 for a leaf.
        limit: Threshold; launches whose answer is at most this value belong to `below`, all others
            to `above`.
        order: Position of the split in the order of growth, starting at 1; 0 for a leaf.
        below: Child for answers up to the threshold.
        above: Child for greater answers.
    """

    best: int
    question: int = -1
    limit: float = 0.0
    order: int = 0
    below: TreeNode | None = None
    above: TreeNode | None = None


def grown(answers: Numbers, slowdowns: Numbers, most_leaves: int, limits: Limits) -> TreeNode:
    """Grow a tree.

    Args:
        answers: Answer of each launch (row) to each question (column).
        slowdowns: Logarithmic slowdown of each launch (row) in each configuration (column).
        most_leaves: Maximum number of leaves, at least two.
        limits: Function that chooses the threshold of each question in the tree.
    """
    from sklearn.tree import DecisionTreeRegressor  # loads for a second; applying rules needs none

    # scikit-learn stores answers as 32-bit floats, in which ranks are exact.
    ranks = np.column_stack([np.unique(column, return_inverse=True)[1] for column in answers.T])
    tree: Any = DecisionTreeRegressor(
        max_leaf_nodes=most_leaves,
        min_impurity_decrease=_LEAST_GAIN / slowdowns.size,
        random_state=0,
    )
    tree = tree.fit(ranks, slowdowns).tree_

    def node(number: int, members: NDArray[np.intp]) -> TreeNode:
        tree_node = TreeNode(best=int(slowdowns[members].mean(axis=0).argmin()))
        left, right = int(tree.children_left[number]), int(tree.children_right[number])
        if left < 0:
            return tree_node
        parts = ranks[members, tree.feature[number]] <= tree.threshold[number]
        own = answers[members]
        tree_node.question, is_below = _first_to_part(own, parts)
        if is_below[0] != parts[0]:
            left, right = right, left
        answer = own[:, tree_node.question]
        below, above = float(answer[is_below].max()), float(answer[~is_below].min())
        tree_node.limit = limits(tree_node.question, below, above)
        tree_node.order = (min(left, right) + 1) // 2  # children are numbered in pairs
        tree_node.below = node(left, members[is_below])
        tree_node.above = node(right, members[~is_below])
        return tree_node

    return node(0, np.arange(len(answers)))


def _first_to_part(answers: Numbers, parts: NDArray[np.bool_]) -> tuple[int, NDArray[np.bool_]]:
    """Return the first question that makes a given split, and a mask of the launches below it.

    scikit-learn may choose any of the questions that make the same split.
    """
    one, other = answers[parts], answers[~parts]
    is_below = one.max(axis=0) < other.min(axis=0)
    question = int((is_below | (other.max(axis=0) < one.min(axis=0))).argmax())
    return question, parts if is_below[question] else ~parts


def followed(node: TreeNode, answers: Sequence[float] | Numbers, leaves: int) -> int:
    """Return the configuration that the tree chooses if it is cut to a given number of leaves."""
    while 0 < node.order < leaves:
        is_below = answers[node.question] <= node.limit
        part = node.below if is_below else node.above
        assert part is not None
        node = part
    return node.best
