"""Makes a rule of stored tunings: few configurations, and a tree that chooses among them.

Owns which configurations are kept and what the regret of a rule is. The tree is grown on each kept
configuration's logarithmic slowdown, of which a leaf takes the least; how many leaves it has and
what it asks is what is best for tunings left out. Must not know how a rule is written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ttools.core.errors import UsageError
from ttools.core.reports.report import counted
from ttools.tuner.measure.trial import Finite
from ttools.tuner.rules.features import (
    MULTIPROCESSORS,
    Feature,
    facts_of,
    features_of,
    ranges_of,
    tile_features_of,
)
from ttools.tuner.rules.growth import TreeNode, followed, grown
from ttools.tuner.store.ranking import estimate
from ttools.tuner.store.store import TuningEntry

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: A rule chooses among at most so many, with at most so many leaves.
MOST_CONFIGS, MOST_LEAVES = 6, 8
#: Numbers of leaves that are tried, and how many parts of the tunings are left out for that.
SIZES, MOST_FOLDS = (1, 2, 3, 4, 5, 6, MOST_LEAVES), 10
#: Regrets of tunings left out are equal up to so many decimals.
EQUAL_DECIMALS = 3
#: Of fewer tunings each is needed to know its own kind of shape.
FEWEST_TO_LEAVE_OUT = 6
#: One more configuration must lower the mean regret by as much.
WORTH_KEEPING = 0.002
#: What a configuration counts that was not timed for a shape, or cannot win there.
UNKNOWN = math.log(4.0)


class Tree:
    """What chooses a configuration: a `Leaf`, or a `Split` into two trees."""


@dataclass(frozen=True)
class Leaf(Tree):
    """The end of a rule: the index of a configuration among those kept."""

    config: int


@dataclass(frozen=True)
class Split(Tree):
    """A question of a rule: whether a feature is at most a threshold."""

    feature: Feature
    at_most: Finite
    yes: Tree
    no: Tree


@dataclass(frozen=True, kw_only=True)
class Regret:
    """How much slower than the best known configuration a rule's choices are, as shares.

    Attributes:
        mean: geometric, over the tunings that it was made of.
        worst: of these.
        held_out_mean: of tunings that a rule made of all others chooses for; None if too few.
        held_out_worst: of these.
    """

    mean: Finite
    worst: Finite
    held_out_mean: Finite | None
    held_out_worst: Finite | None


@dataclass(frozen=True, kw_only=True)
class KernelRules:
    """A rule for a kernel.

    Attributes:
        configs: values of those that it chooses among.
        tree: how.
        devices: that its tunings were made on.
        tunings: how many these are.
        multiprocessors: of the first of the devices; None if it is unknown.
        ranges: the least and the greatest of each number in the keys of its tunings: for launches
            outside it is a guess.
    """

    kernel: str
    configs: Sequence[Mapping[str, Any]]
    tree: Tree
    regret: Regret
    devices: Sequence[str]
    tunings: int
    multiprocessors: int | None = None
    ranges: Mapping[str, tuple[Finite, Finite]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number in _leaves(self.tree):
            if not 0 <= number < len(self.configs):
                raise ValueError(f"no configuration {number} among {len(self.configs)}")

    def choose(self, facts: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.configs[chosen(self.tree, facts)]

    def __str__(self) -> str:
        own = self.regret
        held = ""
        if own.held_out_mean is not None and own.held_out_worst is not None:
            held = f"; of shapes left out {own.held_out_mean:.1%}, worst {own.held_out_worst:.1%}"
        return (
            f"{self.kernel}: {counted(len(self.configs), 'configuration')} for "
            f"{counted(self.tunings, 'tuning')}, "
            f"slower than the best by {own.mean:.1%} on average, worst {own.worst:.1%}{held}"
        )


def _leaves(tree: Tree) -> list[int]:
    if isinstance(tree, Split):
        return [*_leaves(tree.yes), *_leaves(tree.no)]
    assert isinstance(tree, Leaf)
    return [tree.config]


def chosen(tree: Tree, facts: Mapping[str, Any]) -> int:
    """Follows a tree to a leaf."""
    while isinstance(tree, Split):
        is_below = tree.feature.answer(facts) <= tree.at_most
        tree = tree.yes if is_below else tree.no
    assert isinstance(tree, Leaf)
    return tree.config


def synthesise(entries: Sequence[TuningEntry]) -> list[KernelRules]:
    """A rule for each kernel of a store.

    Raises:
        UsageError: nothing was timed.
    """
    by_kernel: dict[str, list[_Tuning]] = {}
    for entry in entries:
        tuning = _tuning(entry)
        if tuning is not None:
            by_kernel.setdefault(entry.problem.kernel, []).append(tuning)
    if not by_kernel:
        raise UsageError("no configuration was timed, so there is nothing to make rules of")
    return [_rules(kernel, tunings) for kernel, tunings in by_kernel.items()]


@dataclass(frozen=True)
class _Tuning:
    """Facts of a launch, and the logarithmic slowdown of each configuration, by its key."""

    facts: Mapping[str, Any]
    slowdowns: Mapping[str, float]
    values: Mapping[str, Mapping[str, Any]]

    def slowdown(self, key: str) -> float:
        return self.slowdowns.get(key, UNKNOWN)


def _tuning(entry: TuningEntry) -> _Tuning | None:
    costs = {t.key: cost for t in entry.trials if (cost := estimate(entry, t))}
    if not costs:
        return None
    best = min(costs.values())
    slowdowns = {key: min(UNKNOWN, math.log(cost / best)) for key, cost in costs.items()}
    values = {trial.key: dict(trial.values) for trial in entry.trials}
    return _Tuning(facts_of(entry.problem), slowdowns, values)


def _rules(kernel: str, tunings: Sequence[_Tuning]) -> KernelRules:
    rules = _fitted(kernel, tunings)
    own = [_regret(rules, each) for each in tunings]
    held: list[float] = []
    if len(tunings) > 2:
        for others, left_out in _folds(tunings):
            made = _fitted(kernel, others)
            held += [_regret(made, each) for each in left_out]
    regret = Regret(
        mean=_share(sum(own) / len(own)),
        worst=_share(max(own)),
        held_out_mean=_share(sum(held) / len(held)) if held else None,
        held_out_worst=_share(max(held)) if held else None,
    )
    return replace(rules, regret=regret)


def _share(logarithm: float) -> float:
    return math.expm1(logarithm)


def _regret(rules: KernelRules, tuning: _Tuning) -> float:
    """Logarithmic slowdown of what a rule chooses."""
    wanted = json.dumps(dict(rules.choose(tuning.facts)), sort_keys=True, default=repr)
    return tuning.slowdown(wanted)


def _fitted(kernel: str, tunings: Sequence[_Tuning]) -> KernelRules:
    keys = kept(tunings)
    values = {key: own for tuning in tunings for key, own in tuning.values.items()}
    return KernelRules(
        kernel=kernel,
        configs=[values[key] for key in keys],
        tree=_tree(tunings, keys),
        regret=Regret(mean=0.0, worst=0.0, held_out_mean=None, held_out_worst=None),
        devices=list(dict.fromkeys(str(each.facts["device"]) for each in tunings)),
        tunings=len(tunings),
        multiprocessors=tunings[0].facts.get(MULTIPROCESSORS),
        ranges=ranges_of([each.facts for each in tunings]),
    )


def kept(tunings: Sequence[_Tuning]) -> list[str]:
    """Keys of few configurations, one of which is good for each tuning: greedily, best first."""
    keys = list(dict.fromkeys(key for tuning in tunings for key in tuning.slowdowns))
    found: list[str] = []
    least = [UNKNOWN] * len(tunings)
    while len(found) < MOST_CONFIGS:

        def with_one_more(key: str, least: Sequence[float] = tuple(least)) -> float:
            own = (each.slowdown(key) for each in tunings)
            return sum(map(min, least, own)) / len(tunings)

        best = min(keys, key=with_one_more)
        if found and sum(least) / len(least) - with_one_more(best) < WORTH_KEEPING:
            break
        found.append(best)
        least = [min(old, each.slowdown(best)) for old, each in zip(least, tunings, strict=True)]
    return found


def _tree(tunings: Sequence[_Tuning], keys: Sequence[str]) -> Tree:
    """The tree over those features and of that size that are best for tunings left out."""
    facts = [each.facts for each in tunings]
    features = features_of(facts)
    if len(keys) == 1 or not features:
        return Leaf(0)
    if len(tunings) < FEWEST_TO_LEAVE_OUT:
        return _grown(tunings, keys, features, MOST_LEAVES)
    values = {key: own for tuning in tunings for key, own in tuning.values.items()}
    # How the device is filled is a cause, sizes are not: of equals it comes first.
    both = [*tile_features_of(facts, [values[key] for key in keys]), *features]
    ways = [*([each] for each in both), features, *([both] if len(both) > len(features) else [])]
    parts = [(others, kept(others), left_out) for others, left_out in _folds(tunings)]

    def rating(way: Sequence[Feature], leaves: int, total: float) -> tuple[float, ...]:
        """Ties go to the smaller tree, over fewer features, with fewer different answers."""
        answers = {tuple(each.answer(own) for each in way) for own in facts}
        return round(total / len(tunings), EQUAL_DECIMALS), leaves, len(way), len(answers)

    rated = (
        (rating(way, leaves, total), way, leaves)
        for way in ways
        for leaves, total in zip(SIZES, _left_out_regrets(parts, way), strict=True)
    )
    _, way, leaves = min(rated, key=lambda each: each[0])
    return _grown(tunings, keys, way, leaves)


def _left_out_regrets(
    parts: Sequence[tuple[Sequence[_Tuning], Sequence[str], Sequence[_Tuning]]],
    features: Sequence[Feature],
) -> list[float]:
    """The regrets of all that was left out together, for trees of each size."""
    totals = [0.0] * len(SIZES)
    for others, keys, left_out in parts:
        tree = _nodes(others, keys, features)
        for each, answers in zip(left_out, _answers(left_out, features), strict=True):
            for size, leaves in enumerate(SIZES):
                totals[size] += each.slowdown(keys[followed(tree, answers, leaves)])
    return totals


def _folds(
    tunings: Sequence[_Tuning],
) -> Iterator[tuple[Sequence[_Tuning], Sequence[_Tuning]]]:
    """Some tunings, and those left out; each is left out once, alone if there are few."""
    count = min(len(tunings), MOST_FOLDS)
    for fold in range(count):
        left_out = tunings[fold::count]
        yield [each for index, each in enumerate(tunings) if index % count != fold], left_out


def _grown(
    tunings: Sequence[_Tuning], keys: Sequence[str], features: Sequence[Feature], leaves: int
) -> Tree:
    return _read(_nodes(tunings, keys, features), features, leaves)


def _nodes(
    tunings: Sequence[_Tuning], keys: Sequence[str], features: Sequence[Feature]
) -> TreeNode:
    def limit(question: int, below: float, above: float) -> float:
        return threshold(features[question], below, above)

    slowdowns = np.array([[each.slowdown(key) for key in keys] for each in tunings])
    return grown(_answers(tunings, features), slowdowns, MOST_LEAVES, limit)


def _answers(tunings: Sequence[_Tuning], features: Sequence[Feature]) -> NDArray[np.float64]:
    return np.array([[feature.answer(each.facts) for feature in features] for each in tunings])


def _read(node: TreeNode, features: Sequence[Feature], leaves: int) -> Tree:
    """The tree of so many leaves, which is the beginning of a larger one."""
    if node.below is None or node.above is None or node.order >= leaves:
        return Leaf(node.best)
    first, second = (_read(each, features, leaves) for each in (node.below, node.above))
    if first == second:
        return first
    return Split(features[node.question], node.limit, first, second)


def threshold(feature: Feature, below: float, above: float) -> float:
    """Where answers that were not measured are parted: from the greatest below to the least above.

    Sizes up to a factor of two apart are parted halfway, so that 3072 belongs to 2048 and not to
    4096, whose tiles it would leave empty in part; others halfway of the factor.
    """
    if feature.kind == "equals":
        return 0.5
    if feature.kind == "fill":
        short = round((below + above) / 2, 3)
        return short if below <= short < above else below
    if feature.kind == "number" and above <= 2 * below:
        return float((below + above) // 2)
    return float(max(below, math.floor(math.sqrt(below * above))))
