"""A configuration to try, its identity, and its text.

Must not know how it is measured.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ttools.core.reports.report import config_text

#: How names of launch options begin that are counts, and no sizes.
_OPTION = "num_"
#: Made once: of a large space, it writes each configuration.
_WRITER = json.JSONEncoder(sort_keys=True, default=repr)


@dataclass(frozen=True)
class Candidate:
    """A configuration to try.

    Attributes:
        index: in the order of the space.
        values: of its parameters and launch options.
        config: the `triton.Config`.
    """

    index: int
    values: Mapping[str, Any]
    config: Any

    @cached_property
    def key(self) -> str:
        """Equal for equal configurations, also of other runs."""
        return config_key(self.values)

    @property
    def resource_use(self) -> tuple[int, int, int]:
        """Decides between equals: the fewest warps, then stages, then the first of the space."""
        warps, stages = (int(self.values.get(name) or 0) for name in ("num_warps", "num_stages"))
        return warps, stages, self.index

    @property
    def work(self) -> float:
        """What a warp has to do, roughly: the product of its sizes, for each of its warps."""
        sizes = [
            value
            for name, value in self.values.items()
            if type(value) is int and value > 0 and not name.startswith(_OPTION)
        ]
        return math.prod(sizes) / int(self.values.get("num_warps") or 1)

    def __str__(self) -> str:
        return config_text(self.values)


def candidates(configs: Iterable[Any]) -> list[Candidate]:
    """Configurations of an autotuner, each once, in its order."""
    found: dict[str, Candidate] = {}
    for config in configs:
        values = {n: v for n, v in config.all_kwargs().items() if v is not None}
        each = Candidate(len(found), values, config)
        found.setdefault(each.key, each)
    return list(found.values())


def config_key(values: Mapping[str, Any]) -> str:
    """A canonical text of a configuration; values that JSON lacks count by their `repr`."""
    return _WRITER.encode(dict(values))


def distinct_values(values: Iterable[Any]) -> list[Any]:
    """Values of a parameter, each once; in order if all are numbers."""
    given = list(values)
    with suppress(TypeError):  # a list cannot be looked up
        # To write all of a large space takes long: one of each, but 1 and True are two.
        given = list({(type(value), value): value for value in given}.values())
    found = list({repr(value): value for value in given}.values())
    numbers = all(isinstance(value, (int, float)) for value in found)
    return sorted(found) if numbers else found
