"""What a rule may ask of a launch: its numbers, their product, its dtypes, its device.

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

from ttools.tuner.problem import Problem

#: The key under which the dtypes of a launch's tensors are kept, and its device.
DTYPES, DEVICE = "dtypes", "device"


@dataclass(frozen=True)
class Feature:
    """A question with a number for an answer; 1 and 0 for yes and no.

    Attributes:
        kind: `number`, the value of an argument; `product`, of several; `equals`, whether an
            argument, a dtype (`dtypes[0]`) or the device has a value.
        names: of the arguments.
        value: of `equals`.
    """

    kind: Literal["number", "product", "equals"]
    names: tuple[str, ...]
    value: Any = None

    def answer(self, facts: Mapping[str, Any]) -> float:
        """Of a launch, by the names of `facts_of` or `facts_of_arguments`."""
        if self.kind == "equals":
            return float(facts.get(self.names[0]) == self.value)
        return float(math.prod(facts[name] for name in self.names))


def facts_of(problem: Problem) -> dict[str, Any]:
    """What is known of a stored tuning."""
    facts = dict(problem.key_values)
    for place, dtype in enumerate(facts.pop(DTYPES, ())):
        facts[f"{DTYPES}[{place}]"] = dtype
    return {**facts, DEVICE: device_name(problem.device)}


def facts_of_arguments(arguments: Mapping[str, Any], device: str) -> dict[str, Any]:
    """The same of a launch."""
    facts = {name: value for name, value in arguments.items() if not hasattr(value, "dtype")}
    tensors = [value for value in arguments.values() if hasattr(value, "dtype")]
    for place, tensor in enumerate(tensors):
        facts[f"{DTYPES}[{place}]"] = str(tensor.dtype).removeprefix("torch.")
    return {**facts, DEVICE: device}


def device_name(device: str) -> str:
    """The name of a GPU as torch tells it, of a problem's device; `cpu` for all CPUs."""
    match = re.match(r"(?:cuda|hip): (.*) \(sm_\d+\)$", device)
    if match:
        return match[1]
    return "cpu" if device.startswith("cpu:") else device


def features_of(facts: Sequence[Mapping[str, Any]]) -> list[Feature]:
    """The questions whose answers differ among launches."""
    names = dict.fromkeys(name for each in facts for name in each)
    numbers = [n for n in names if all(_is_number(each.get(n)) for each in facts)]
    found = [Feature("number", (name,)) for name in numbers]
    if len(numbers) > 1:
        found.append(Feature("product", tuple(numbers)))
    differing = [n for n in numbers if len({each[n] for each in facts}) > 1]
    if len(differing) > 2:
        found += [Feature("product", pair) for pair in itertools.combinations(differing, 2)]
    for name in names:
        if name not in numbers:
            values = _distinct(each.get(name) for each in facts)
            found += [Feature("equals", (name,), value) for value in values[1:]]
    return [each for each in found if len({each.answer(own) for own in facts}) > 1]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list({repr(value): value for value in values}.values())
