"""A configuration to try, with its identity and its text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ttools.core.reports.report import config_text

#: Prefix of the names of launch options that are counts rather than sizes.
_OPTION = "num_"
#: The encoder is created only once, because every configuration of a large space is written with
#: it.
_WRITER = json.JSONEncoder(sort_keys=True, default=repr)


@dataclass(frozen=True)
class Candidate:
    """A configuration to try.

    Attributes:
        index: Position in the order of the space.
        values: Values of the kernel's parameters and launch options, by name.
        config: The `triton.Config` of these values.
    """

    index: int
    values: Mapping[str, Any]
    config: Any

    @cached_property
    def key(self) -> str:
        """A text that is equal for equal configurations, even in other runs."""
        return config_key(self.values)

    @property
    def resource_use(self) -> tuple[int, int, int]:
        """The sort key among equally fast configurations: warps, stages and place in the space."""
        warps, stages = (int(self.values.get(name) or 0) for name in ("num_warps", "num_stages"))
        return warps, stages, self.index

    @property
    def work(self) -> float:
        """An estimate of the work per warp: the product of all sizes over the number of warps."""
        sizes = [
            value
            for name, value in self.values.items()
            if type(value) is int and value > 0 and not name.startswith(_OPTION)
        ]
        return math.prod(sizes) / int(self.values.get("num_warps") or 1)

    def __str__(self) -> str:
        return config_text(self.values)


def candidates(configs: Iterable[Any]) -> list[Candidate]:
    """Return the distinct configurations of an autotuner, in the autotuner's order."""
    by_key: dict[str, Candidate] = {}
    for config in configs:
        values = {n: v for n, v in config.all_kwargs().items() if v is not None}
        candidate = Candidate(len(by_key), values, config)
        by_key.setdefault(candidate.key, candidate)
    return list(by_key.values())


def config_key(values: Mapping[str, Any]) -> str:
    """Return a canonical text of a configuration; values that JSON cannot represent use `repr`."""
    return _WRITER.encode(dict(values))


def distinct_values(values: Iterable[Any]) -> list[Any]:
    """Return the distinct values of a parameter, sorted if all are numbers."""
    remaining = list(values)
    with suppress(TypeError):  # lists are not hashable
        # Calling `repr` on each value of a large space is slow, so duplicates are removed first.
        # The type is part of the key because 1 == True.
        remaining = list({(type(value), value): value for value in remaining}.values())
    distinct = list({repr(value): value for value in remaining}.values())
    numbers = all(isinstance(value, (int, float)) for value in distinct)
    return sorted(distinct) if numbers else distinct
