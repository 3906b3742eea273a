"""Grows a decision tree: questions whose answers part launches that want different configurations.

Owns the growth. A node's question is the one that most lowers the squares of what is left unknown
of all configurations' slowdowns, as in a regression tree; of equals the first. The best question
anywhere is asked next, so a tree of fewer leaves is the beginning of one of more. Must not know
what the questions are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Places = NDArray[np.intp]

#: The limit of a question, of the greatest answer below and the least above.
Limits = Callable[[int, float, float], float]
#: Gains are compared to so many decimals, so that rounding does not choose.
_DECIMALS = 9


@dataclass
class Node:
    """A part of the launches.

    Attributes:
        members: their places.
        best: the configuration with the least slowdown on average.
        question: its place, if one is asked.
        limit: the answers of `below` are at most that, those of `above` more.
        order: which question of the whole tree it is, from 1 on.
        below: the part whose answers are at most the limit.
        above: the other.
    """

    members: Places
    best: int
    question: int = -1
    limit: float = 0.0
    order: int = 0
    below: Node | None = None
    above: Node | None = None


@dataclass(frozen=True)
class _Cut:
    gain: float
    question: int
    limit: float


def grown(answers: Numbers, slowdowns: Numbers, most_leaves: int, limits: Limits) -> Node:
    """Grows a tree.

    Args:
        answers: of each launch (row) to each question (column).
        slowdowns: of each launch (row) in each configuration (column).
        most_leaves: of the tree.
        limits: asked for each question of the tree.
    """
    root = _node(slowdowns, np.arange(len(answers)))
    open_nodes = [(root, _best_cut(answers, slowdowns, limits))]
    for order in range(1, most_leaves):
        node, cut = max(open_nodes, key=lambda pair: pair[1].gain if pair[1] else 0.0)
        if cut is None:
            break
        open_nodes = [pair for pair in open_nodes if pair[0] is not node]
        is_below = answers[node.members, cut.question] <= cut.limit
        node.question, node.limit, node.order = cut.question, cut.limit, order
        node.below = _node(slowdowns, node.members[is_below])
        node.above = _node(slowdowns, node.members[~is_below])
        for part in (node.below, node.above):
            own = part.members
            open_nodes.append((part, _best_cut(answers[own], slowdowns[own], limits)))
    return root


def followed(node: Node, answers: Sequence[float] | Numbers, leaves: int) -> int:
    """The configuration that the tree of so many leaves chooses for a launch."""
    while 0 < node.order < leaves:
        is_below = answers[node.question] <= node.limit
        part = node.below if is_below else node.above
        assert part is not None
        node = part
    return node.best


def _node(slowdowns: Numbers, members: Places) -> Node:
    return Node(members, int(slowdowns[members].mean(axis=0).argmin()))


def _best_cut(answers: Numbers, slowdowns: Numbers, limits: Limits) -> _Cut | None:
    count = len(answers)
    if count < 2:
        return None
    order = answers.argsort(axis=0, kind="stable")
    ordered = np.take_along_axis(answers, order, axis=0)
    # Sums over the launches below each cut: cut, question, configuration.
    sums = slowdowns[order].cumsum(axis=0)[:-1]
    total = slowdowns.sum(axis=0)
    fewer = np.arange(1, count)[:, None]
    gain = (sums**2).sum(axis=-1) / fewer + ((total - sums) ** 2).sum(axis=-1) / (count - fewer)
    gain = (gain - (total**2).sum() / count).round(_DECIMALS)
    gain[ordered[1:] <= ordered[:-1]] = 0.0
    question, place = divmod(int(gain.T.argmax()), count - 1)
    if gain[place, question] <= 0.0:
        return None
    below, above = ordered[place, question], ordered[place + 1, question]
    limit = limits(question, float(below), float(above))
    return _Cut(float(gain[place, question]), question, limit)
