"""Synthesis of a rule from stored tunings: a few configurations, and a tree that selects one.

First, a greedy search keeps configurations that together are good for all tunings. Then a decision
tree is grown on the logarithmic slowdowns of the kept configurations; each leaf selects the
configuration with the lowest mean slowdown. Cross-validation chooses the number of leaves and the
features that give the smallest slowdown on left-out tunings.

For example, tunings for `n` = 256, 512 and 65536 may keep `BLOCK=256` and `BLOCK=4096`, with the
rule: `BLOCK=256` if `n` is at most 5792 (the geometric mean of 512 and 65536), else `BLOCK=4096`.
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

#: Maximum number of configurations and maximum number of leaves of a rule.
MOST_CONFIGS, MOST_LEAVES = 6, 8
#: Numbers of leaves that cross-validation compares, and maximum number of its folds.
SIZES, MOST_FOLDS = (1, 2, 3, 4, 5, 6, MOST_LEAVES), 10
#: Regrets of left-out tunings count as equal if they agree when rounded to this many decimals.
EQUAL_DECIMALS = 3
#: With fewer tunings than this, there is no cross-validation, because each tuning may be the only
#: one of its kind of shape.
FEWEST_TO_LEAVE_OUT = 6
#: A further configuration is kept if it reduces the mean regret by at least this much.
WORTH_KEEPING = 0.002
#: Assumed logarithmic slowdown of a configuration that was not timed for a shape, or cannot win
#: there.
UNKNOWN = math.log(4.0)


class Tree:
    """A decision tree that selects a configuration: a `Leaf`, or a `Split` into two trees."""


@dataclass(frozen=True)
class Leaf(Tree):
    """A leaf, which is the index of a configuration among the kept configurations."""

    config: int


@dataclass(frozen=True)
class Split(Tree):
    """An inner node, which compares a feature with a threshold."""

    feature: Feature
    at_most: Finite
    yes: Tree
    no: Tree


@dataclass(frozen=True, kw_only=True)
class Regret:
    """The slowdown of a rule's choices relative to the best configurations; 0.05 is 5%.

    Attributes:
        mean: Geometric mean over the tunings from which the rule was made.
        worst: Maximum over these tunings.
        held_out_mean: Geometric mean over the tunings, each with the choice of a rule that was made
            without this tuning; None if there are fewer than three tunings.
        held_out_worst: Maximum over the same choices.
    """

    mean: Finite
    worst: Finite
    held_out_mean: Finite | None
    held_out_worst: Finite | None


@dataclass(frozen=True, kw_only=True)
class KernelRules:
    """A rule for a kernel.

    Attributes:
        configs: Values of the configurations from which the rule selects.
        tree: Decision tree over indices into `configs`.
        devices: Devices of the rule's tunings.
        tunings: Number of tunings from which the rule was made.
        multiprocessors: Number of multiprocessors of the first device; None if unknown.
        ranges: Smallest and largest value of each number in the tunings' keys. Outside these
            ranges, the rule extrapolates.
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
                raise ValueError(
                    f"there is no configuration {number}; there are {len(self.configs)}"
                )

    def choose(self, facts: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.configs[chosen(self.tree, facts)]

    def __str__(self) -> str:
        own = self.regret
        held_out = ""
        if own.held_out_mean is not None and own.held_out_worst is not None:
            held_out = (
                f"; for shapes left out {own.held_out_mean:.1%}, worst {own.held_out_worst:.1%}"
            )
        return (
            f"{self.kernel}: {counted(len(self.configs), 'configuration')} for "
            f"{counted(self.tunings, 'tuning')}, "
            f"slower than the best by {own.mean:.1%} on average, worst {own.worst:.1%}{held_out}"
        )


def _leaves(tree: Tree) -> list[int]:
    if isinstance(tree, Split):
        return [*_leaves(tree.yes), *_leaves(tree.no)]
    assert isinstance(tree, Leaf)
    return [tree.config]


def chosen(tree: Tree, facts: Mapping[str, Any]) -> int:
    """Return the index of the configuration that a tree selects for a launch."""
    while isinstance(tree, Split):
        is_below = tree.feature.answer(facts) <= tree.at_most
        tree = tree.yes if is_below else tree.no
    assert isinstance(tree, Leaf)
    return tree.config


def synthesise(entries: Sequence[TuningEntry]) -> list[KernelRules]:
    """Make a rule for each kernel of a store.

    Raises:
        UsageError: No configuration was timed.
    """
    by_kernel: dict[str, list[_Tuning]] = {}
    for entry in entries:
        tuning = _tuning(entry)
        if tuning is not None:
            by_kernel.setdefault(entry.problem.kernel, []).append(tuning)
    if not by_kernel:
        raise UsageError("no configuration was timed, so no rules can be derived")
    return [_rules(kernel, tunings) for kernel, tunings in by_kernel.items()]


@dataclass(frozen=True)
class _Tuning:
    """The facts of a launch, and the logarithmic slowdowns of configurations, by key."""

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
    own = [_regret(rules, tuning) for tuning in tunings]
    held_out: list[float] = []
    if len(tunings) > 2:
        for others, left_out in _folds(tunings):
            made = _fitted(kernel, others)
            held_out += [_regret(made, tuning) for tuning in left_out]
    regret = Regret(
        mean=_share(sum(own) / len(own)),
        worst=_share(max(own)),
        held_out_mean=_share(sum(held_out) / len(held_out)) if held_out else None,
        held_out_worst=_share(max(held_out)) if held_out else None,
    )
    return replace(rules, regret=regret)


def _share(logarithm: float) -> float:
    return math.expm1(logarithm)


def _regret(rules: KernelRules, tuning: _Tuning) -> float:
    """Return the logarithmic slowdown of the configuration that a rule selects."""
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
        devices=list(dict.fromkeys(str(tuning.facts["device"]) for tuning in tunings)),
        tunings=len(tunings),
        multiprocessors=tunings[0].facts.get(MULTIPROCESSORS),
        ranges=ranges_of([tuning.facts for tuning in tunings]),
    )


def kept(tunings: Sequence[_Tuning]) -> list[str]:
    """Greedily select a few configurations so that each tuning has a good one among them."""
    keys = list(dict.fromkeys(key for tuning in tunings for key in tuning.slowdowns))
    selected: list[str] = []
    least = [UNKNOWN] * len(tunings)
    while len(selected) < MOST_CONFIGS:

        def with_one_more(key: str, least: Sequence[float] = tuple(least)) -> float:
            own = (tuning.slowdown(key) for tuning in tunings)
            return sum(map(min, least, own)) / len(tunings)

        best = min(keys, key=with_one_more)
        if selected and sum(least) / len(least) - with_one_more(best) < WORTH_KEEPING:
            break
        selected.append(best)
        pairs = zip(least, tunings, strict=True)
        least = [min(slowdown, tuning.slowdown(best)) for slowdown, tuning in pairs]
    return selected


def _tree(tunings: Sequence[_Tuning], keys: Sequence[str]) -> Tree:
    """Grow the tree with the features and the number of leaves that cross-validation selects."""
    facts = [tuning.facts for tuning in tunings]
    features = features_of(facts)
    if len(keys) == 1 or not features:
        return Leaf(0)
    if len(tunings) < FEWEST_TO_LEAVE_OUT:
        return _grown(tunings, keys, features, MOST_LEAVES)
    values = {key: own for tuning in tunings for key, own in tuning.values.items()}
    # Times depend on the number of tiles per multiprocessor, with which sizes are only correlated,
    # so features of tiles win ties.
    both = [*tile_features_of(facts, [values[key] for key in keys]), *features]
    feature_sets = [
        *([feature] for feature in both),
        features,
        *([both] if len(both) > len(features) else []),
    ]
    parts = [(others, kept(others), left_out) for others, left_out in _folds(tunings)]

    def rating(feature_set: Sequence[Feature], leaves: int, total: float) -> tuple[float, ...]:
        """Rank by regret; ties go to smaller trees, fewer features, then fewer distinct answers."""
        answers = {tuple(feature.answer(own) for feature in feature_set) for own in facts}
        return round(total / len(tunings), EQUAL_DECIMALS), leaves, len(feature_set), len(answers)

    rated = (
        (rating(feature_set, leaves, total), feature_set, leaves)
        for feature_set in feature_sets
        for leaves, total in zip(SIZES, _left_out_regrets(parts, feature_set), strict=True)
    )
    _, feature_set, leaves = min(rated, key=lambda row: row[0])
    return _grown(tunings, keys, feature_set, leaves)


def _left_out_regrets(
    parts: Sequence[tuple[Sequence[_Tuning], Sequence[str], Sequence[_Tuning]]],
    features: Sequence[Feature],
) -> list[float]:
    """Return the total regret of the left-out tunings of all folds, for each number of leaves."""
    totals = [0.0] * len(SIZES)
    for others, keys, left_out in parts:
        tree = _nodes(others, keys, features)
        for tuning, answers in zip(left_out, _answers(left_out, features), strict=True):
            for size, leaves in enumerate(SIZES):
                totals[size] += tuning.slowdown(keys[followed(tree, answers, leaves)])
    return totals


def _folds(
    tunings: Sequence[_Tuning],
) -> Iterator[tuple[Sequence[_Tuning], Sequence[_Tuning]]]:
    """Yield each fold as a pair: the tunings that are kept, and the tunings that are left out."""
    count = min(len(tunings), MOST_FOLDS)
    for fold in range(count):
        left_out = tunings[fold::count]
        yield [tuning for index, tuning in enumerate(tunings) if index % count != fold], left_out


def _grown(
    tunings: Sequence[_Tuning], keys: Sequence[str], features: Sequence[Feature], leaves: int
) -> Tree:
    return _read(_nodes(tunings, keys, features), features, leaves)


def _nodes(
    tunings: Sequence[_Tuning], keys: Sequence[str], features: Sequence[Feature]
) -> TreeNode:
    def limit(question: int, below: float, above: float) -> float:
        return threshold(features[question], below, above)

    slowdowns = np.array([[tuning.slowdown(key) for key in keys] for tuning in tunings])
    return grown(_answers(tunings, features), slowdowns, MOST_LEAVES, limit)


def _answers(tunings: Sequence[_Tuning], features: Sequence[Feature]) -> NDArray[np.float64]:
    rows = [[feature.answer(tuning.facts) for feature in features] for tuning in tunings]
    return np.array(rows)


def _read(node: TreeNode, features: Sequence[Feature], leaves: int) -> Tree:
    """Convert the first splits of a grown tree into a tree with the given number of leaves."""
    if node.below is None or node.above is None or node.order >= leaves:
        return Leaf(node.best)
    first, second = (_read(child, features, leaves) for child in (node.below, node.above))
    if first == second:
        return first
    return Split(features[node.question], node.limit, first, second)


def threshold(feature: Feature, below: float, above: float) -> float:
    """Return a threshold between the largest measured answer below it and the smallest above it.

    If the two numbers differ by at most a factor of two, the threshold is their mean: for 2048 and
    4096, for example, 3072 is treated like 2048, because the tiles for 4096 would be partly empty.
    Otherwise, the threshold is their geometric mean.
    """
    if feature.kind == "equals":
        return 0.5
    if feature.kind == "fill":
        short = round((below + above) / 2, 3)
        return short if below <= short < above else below
    if feature.kind == "number" and above <= 2 * below:
        return float((below + above) // 2)
    return float(max(below, math.floor(math.sqrt(below * above))))
