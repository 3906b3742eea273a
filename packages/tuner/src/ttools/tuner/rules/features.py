"""Features of a launch on which a rule can decide: its numbers, tiles, dtypes and device.

The same features are computed for stored tunings, from which rules are made, and for launches, to
which rules are applied. Each feature has a numeric value, which a rule compares with a threshold.
An example is the number of waves that tiles of size 128 along `M` and 64 along `N` need.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ttools.core.gpus.devices import device_called
from ttools.tuner.store.problem import Problem

#: Keys for the dtypes of a launch's tensors, for its device, and for the device's number of
#: multiprocessors; the last key is missing if this number is unknown.
DTYPES, DEVICE, MULTIPROCESSORS = "dtypes", "device", "multiprocessors"
#: Maximum number of dimensions of a tile.
_MOST_SIDES = 3
#: A parameter whose name contains one of these words is not a tile size, even if the word is also
#: the name of an argument.
_NO_SIDES = frozenset({"group", "groups", "num", "split", "stages", "warps"})
#: Arguments that count equal problems. Each of these problems has its own tiles, so these arguments
#: multiply the grid.
_COUNTS_OF_ALIKE = frozenset({"batch", "batches", "experts", "groups", "heads"})
#: Parameters that are the tile size of an argument if all other arguments have their own tile
#: sizes.
_LONE_SIDES = ("BLOCK", "BLOCK_SIZE", "XBLOCK", "TILE", "TILE_SIZE")


_Kind = Literal["number", "product", "waves", "fill", "equals"]


@dataclass(frozen=True)
class Feature:
    """A number that is computed from a launch; yes and no are 1 and 0.

    Attributes:
        kind: `number` is the value of an argument, and `product` the product of several arguments.
            `waves` is how many tiles the busiest multiprocessor processes, and `fill` is the share
            of all slots in these waves that have a tile. `equals` is whether an argument, a dtype
            (`dtypes[0]`) or the device has a given value.
        names: Names of the arguments.
        value: For `equals`, the value to compare with; for `waves` and `fill`, the tile sizes, one
            per name.

    Raises:
        ValueError: The feature cannot be computed, for example because the file is damaged.
    """

    kind: _Kind
    names: tuple[str, ...]
    value: bool | int | float | str | tuple[int | float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.names:
            raise ValueError(f"a feature of kind {self.kind} does not name an argument")
        if self.kind in ("waves", "fill"):
            right = len(self.sides) == len(self.names) and all(side > 0 for side in self.sides)
            if not right:
                raise ValueError(f"a feature of kind {self.kind} needs a tile size for each name")

    @property
    def sides(self) -> tuple[float, ...]:
        """The tile sizes of `waves` and `fill`."""
        return self.value if isinstance(self.value, tuple) else ()

    def answer(self, facts: Mapping[str, Any]) -> float:
        """Return the feature's value, given the result of `facts_of` or `facts_of_arguments`."""
        if self.kind == "equals":
            return float(facts.get(self.names[0]) == self.value)
        if self.kind in ("number", "product"):
            return float(math.prod(facts[name] for name in self.names))
        sides = zip(self.names, self.sides, strict=True)
        tiles = math.prod(math.ceil(facts[name] / side) for name, side in sides)
        waves = math.ceil(tiles / facts[MULTIPROCESSORS])
        if self.kind == "waves":
            return float(waves)
        return float(tiles / (max(1, waves) * facts[MULTIPROCESSORS]))


def facts_of(problem: Problem) -> dict[str, Any]:
    """Return the facts of a stored tuning."""
    facts = dict(problem.key_values)
    for index, dtype in enumerate(facts.pop(DTYPES, ())):
        facts[f"{DTYPES}[{index}]"] = dtype
    name = device_name(problem.device)
    device = device_called(name)
    count = {} if device is None else {MULTIPROCESSORS: device.multiprocessors}
    return {**facts, DEVICE: name, **count}


def facts_of_arguments(
    arguments: Mapping[str, Any], device: str, multiprocessors: int | None = None
) -> dict[str, Any]:
    """Return the facts of a launch, under the same names as `facts_of`."""
    facts = {name: value for name, value in arguments.items() if not hasattr(value, "dtype")}
    tensors = [value for value in arguments.values() if hasattr(value, "dtype")]
    for index, tensor in enumerate(tensors):
        facts[f"{DTYPES}[{index}]"] = str(tensor.dtype).removeprefix("torch.")
    count = {} if multiprocessors is None else {MULTIPROCESSORS: multiprocessors}
    return {**facts, DEVICE: device, **count}


def device_name(device: str) -> str:
    """Return a GPU's name as torch reports it, given a problem's device; `cpu` for all CPUs."""
    match = re.match(r"(?:cuda|hip): (.*) \(sm_\d+\)$", device)
    if match:
        return match[1]
    return "cpu" if device.startswith("cpu:") else device


def features_of(facts: Sequence[Mapping[str, Any]]) -> list[Feature]:
    """Return the features of numbers, dtypes and devices whose values differ among launches."""
    names = dict.fromkeys(name for launch in facts for name in launch if name != MULTIPROCESSORS)
    numbers = _numbers(facts)
    features = [Feature("number", (name,)) for name in numbers]
    if len(numbers) > 1:
        features.append(Feature("product", tuple(numbers)))
    differing = _differing(numbers, facts)
    if len(differing) > 2:
        features += [Feature("product", pair) for pair in itertools.combinations(differing, 2)]
    for name in names:
        if name not in numbers:
            values = _distinct(launch.get(name) for launch in facts)
            features += [Feature("equals", (name,), value) for value in values[1:]]
    return _differing_features(features, facts)


def ranges_of(facts: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, float]]:
    """Return the smallest and the largest value of each number."""
    return {
        name: (min(launch[name] for launch in facts), max(launch[name] for launch in facts))
        for name in _numbers(facts)
    }


def tile_features_of(
    facts: Sequence[Mapping[str, Any]], configs: Sequence[Mapping[str, Any]]
) -> list[Feature]:
    """Return the features of tiles and the device whose values differ among launches.

    Args:
        facts: Facts of the launches; the result is empty if any multiprocessor count is unknown.
        configs: Configurations whose tile sizes are used, see `tile_sides`. Arguments that count
            groups, batches or heads multiply the number of tiles.
    """
    if not all(MULTIPROCESSORS in launch for launch in facts):
        return []
    numbers = _numbers(facts)
    alike = tuple(name for name in numbers if name.lower() in _COUNTS_OF_ALIKE)
    tiled = [name for name in _differing(numbers, facts) if name not in alike]
    sides = tile_sides(tiled, configs[0])
    features: dict[Feature, None] = {}
    for count in range(min(2, len(sides)), min(_MOST_SIDES, len(sides)) + 1):
        for names in itertools.combinations(sides, count):
            for config in configs:
                tile: Any = tuple(config.get(sides[name]) for name in names)
                is_tile = all(type(side) is int and side > 0 for side in tile) and set(tile) != {1}
                if is_tile and (names or alike):
                    own = (*names, *alike), (*tile, *(1 for _ in alike))
                    features[Feature("waves", *own)] = None
                    features[Feature("fill", *own)] = None
    return _differing_features(features, facts)


def tile_sides(numbers: Sequence[str], values: Iterable[str]) -> dict[str, str]:
    """Return the name of the parameter that is the tile size of each number, by the number's name.

    Args:
        numbers: Names of numeric arguments, for example `M` and `rows`.
        values: Names of the configuration's parameters. For example, `BLOCK_M` and `BLOCK_SIZE_M`
            are tile sizes of `M`, `ROWS` is that of `rows`, and `BLOCK` is that of the only number
            without any other tile size.
    """
    own = [name for name in values if not _NO_SIDES.intersection(_words(name))]
    side_of = {}
    for number in numbers:
        side = next((name for name in own if number.lower() in _words(name)), None)
        if side is not None:
            side_of[number] = side
    others = [number for number in numbers if number not in side_of]
    lone = [name for name in own if name in _LONE_SIDES]
    return side_of | ({others[0]: lone[0]} if len(others) == 1 and lone else {})


def _words(name: str) -> list[str]:
    return name.lower().split("_")


def _numbers(facts: Sequence[Mapping[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for launch in facts for name in launch if name != MULTIPROCESSORS)
    return [n for n in names if all(_is_number(launch.get(n)) for launch in facts)]


def _differing(names: Iterable[str], facts: Sequence[Mapping[str, Any]]) -> list[str]:
    return [n for n in names if len({launch[n] for launch in facts}) > 1]


def _differing_features(
    features: Iterable[Feature], facts: Sequence[Mapping[str, Any]]
) -> list[Feature]:
    return [
        feature for feature in features if len({feature.answer(launch) for launch in facts}) > 1
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list({repr(value): value for value in values}.values())
