"""What a rule may ask of a launch: its numbers, how they fill the device, its dtypes, its device.

Owns how a question is put to stored tunings and to launches alike. Must not know how questions are
chosen.
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

#: The key under which the dtypes of a launch's tensors are kept, its device, and how many
#: multiprocessors that has; this one is missing where it is unknown.
DTYPES, DEVICE, MULTIPROCESSORS = "dtypes", "device", "multiprocessors"
#: Tiles have at most so many dimensions.
_MOST_SIDES = 3
#: Words in the names of parameters that are no sides of tiles, though they name a number.
_NO_SIDES = frozenset({"group", "groups", "num", "split", "stages", "warps"})
#: Numbers of things of one size, each of which has tiles of its own: a grid of as many more.
_COUNTS_OF_ALIKE = frozenset({"batch", "batches", "experts", "groups", "heads"})
#: Parameters that are the side of a tile of the only number that no other names.
_LONE_SIDES = ("BLOCK", "BLOCK_SIZE", "XBLOCK", "TILE", "TILE_SIZE")


_Kind = Literal["number", "product", "waves", "fill", "equals"]


@dataclass(frozen=True)
class Feature:
    """A question with a number for an answer; 1 and 0 for yes and no.

    Attributes:
        kind: `number`, the value of an argument; `product`, of several; `waves`, how often the
            busiest multiprocessor takes a tile of the numbers; `fill`, the share of all those
            waves that has a tile; `equals`, whether an argument, a dtype (`dtypes[0]`) or the
            device has a value.
        names: of the arguments.
        value: of `equals`; of `waves` and `fill` the sides of the tile, one for each name.

    Raises:
        ValueError: it cannot be answered, as in a damaged file.
    """

    kind: _Kind
    names: tuple[str, ...]
    value: bool | int | float | str | tuple[int | float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.names:
            raise ValueError(f"a feature of kind {self.kind} names no argument")
        if self.kind in ("waves", "fill"):
            right = len(self.sides) == len(self.names) and all(side > 0 for side in self.sides)
            if not right:
                raise ValueError(f"a feature of kind {self.kind} needs a side for each name")

    @property
    def sides(self) -> tuple[float, ...]:
        """The sides of the tile that `waves` and `fill` ask about."""
        return self.value if isinstance(self.value, tuple) else ()

    def answer(self, facts: Mapping[str, Any]) -> float:
        """The answer for a launch, whose facts are those of `facts_of` or `facts_of_arguments`."""
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
    """What is known of a stored tuning."""
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
    """What is known of a launch, by the same names."""
    facts = {name: value for name, value in arguments.items() if not hasattr(value, "dtype")}
    tensors = [value for value in arguments.values() if hasattr(value, "dtype")]
    for index, tensor in enumerate(tensors):
        facts[f"{DTYPES}[{index}]"] = str(tensor.dtype).removeprefix("torch.")
    count = {} if multiprocessors is None else {MULTIPROCESSORS: multiprocessors}
    return {**facts, DEVICE: device, **count}


def device_name(device: str) -> str:
    """The name of a GPU as torch reports it, from a problem's device; `cpu` for all CPUs."""
    match = re.match(r"(?:cuda|hip): (.*) \(sm_\d+\)$", device)
    if match:
        return match[1]
    return "cpu" if device.startswith("cpu:") else device


def features_of(facts: Sequence[Mapping[str, Any]]) -> list[Feature]:
    """The questions about numbers, dtypes and devices whose answers differ among launches."""
    names = dict.fromkeys(name for each in facts for name in each if name != MULTIPROCESSORS)
    numbers = _numbers(facts)
    found = [Feature("number", (name,)) for name in numbers]
    if len(numbers) > 1:
        found.append(Feature("product", tuple(numbers)))
    differing = _differing(numbers, facts)
    if len(differing) > 2:
        found += [Feature("product", pair) for pair in itertools.combinations(differing, 2)]
    for name in names:
        if name not in numbers:
            values = _distinct(each.get(name) for each in facts)
            found += [Feature("equals", (name,), value) for value in values[1:]]
    return _differing_features(found, facts)


def ranges_of(facts: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, float]]:
    """The least and the greatest of each number."""
    return {
        name: (min(each[name] for each in facts), max(each[name] for each in facts))
        for name in _numbers(facts)
    }


def tile_features_of(
    facts: Sequence[Mapping[str, Any]], configs: Sequence[Mapping[str, Any]]
) -> list[Feature]:
    """The questions how tiles of configurations fill the device whose answers differ.

    Args:
        facts: of launches; there are no such questions unless the multiprocessors of all are known.
        configs: whose sides of tiles are asked about, see `tile_sides`. Numbers of groups, batches,
            heads count their tiles so many times.
    """
    if not all(MULTIPROCESSORS in each for each in facts):
        return []
    numbers = _numbers(facts)
    alike = tuple(name for name in numbers if name.lower() in _COUNTS_OF_ALIKE)
    tiled = [name for name in _differing(numbers, facts) if name not in alike]
    sides = tile_sides(tiled, configs[0])
    found: dict[Feature, None] = {}
    for count in range(min(2, len(sides)), min(_MOST_SIDES, len(sides)) + 1):
        for names in itertools.combinations(sides, count):
            for config in configs:
                tile: Any = tuple(config.get(sides[name]) for name in names)
                is_tile = all(type(side) is int and side > 0 for side in tile) and set(tile) != {1}
                if is_tile and (names or alike):
                    own = (*names, *alike), (*tile, *(1 for _ in alike))
                    found[Feature("waves", *own)] = None
                    found[Feature("fill", *own)] = None
    return _differing_features(found, facts)


def tile_sides(numbers: Sequence[str], values: Iterable[str]) -> dict[str, str]:
    """The parameter that is the side of a tile of each number, by their names.

    Args:
        numbers: names of numbers among the arguments: `M`, `rows`.
        values: names of the parameters: `BLOCK_M` and `BLOCK_SIZE_M` are sides of `M`, `ROWS` of
            `rows`, and `BLOCK` of the only number without another one.
    """
    own = [name for name in values if not _NO_SIDES.intersection(_words(name))]
    found = {}
    for number in numbers:
        side = next((name for name in own if number.lower() in _words(name)), None)
        if side is not None:
            found[number] = side
    others = [number for number in numbers if number not in found]
    lone = [name for name in own if name in _LONE_SIDES]
    return found | ({others[0]: lone[0]} if len(others) == 1 and lone else {})


def _words(name: str) -> list[str]:
    return name.lower().split("_")


def _numbers(facts: Sequence[Mapping[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for each in facts for name in each if name != MULTIPROCESSORS)
    return [n for n in names if all(_is_number(each.get(n)) for each in facts)]


def _differing(names: Iterable[str], facts: Sequence[Mapping[str, Any]]) -> list[str]:
    return [n for n in names if len({each[n] for each in facts}) > 1]


def _differing_features(
    features: Iterable[Feature], facts: Sequence[Mapping[str, Any]]
) -> list[Feature]:
    return [each for each in features if len({each.answer(own) for own in facts}) > 1]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list({repr(value): value for value in values}.values())
