"""What is known of a configuration: whether it may win, why not, and how long it takes.

Plain data between those who run, store and report. Must not know any of them.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ttools.tuner.confidence import median_interval

#: A launch without programs takes no time at all; ratios of costs need some.
LEAST_SECONDS = 1e-9
#: `over_limit`: does not fit on the target; `failed`: does not compile or run; `defect`: the
#: sanitizer found an error; `wrong`: other outputs than the reference; `crashed`: it ended the
#: process that ran it; `timed_out`: it did not end in time. Only `ok` can win.
Status = Literal["ok", "over_limit", "failed", "defect", "wrong", "crashed", "timed_out"]

#: How names of launch options begin that are counts, and no sizes.
_OPTION = "num_"


@dataclass(frozen=True)
class Candidate:
    """A configuration to try.

    Attributes:
        place: in the order of the space.
        values: of its parameters and launch options.
        config: the `triton.Config`.
    """

    place: int
    values: Mapping[str, Any]
    config: Any

    @property
    def key(self) -> str:
        """Equal for equal configurations, also of other runs."""
        return config_key(self.values)

    @property
    def thrift(self) -> tuple[int, int, int]:
        """Decides between equals: the fewest warps, then stages, then the first of the space."""
        warps, stages = (int(self.values.get(name) or 0) for name in ("num_warps", "num_stages"))
        return warps, stages, self.place

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
        found.setdefault(config_key(values), Candidate(len(found), values, config))
    return list(found.values())


def config_key(values: Mapping[str, Any]) -> str:
    """A canonical text of a configuration; values that JSON lacks count by their `repr`."""
    return json.dumps(dict(values), sort_keys=True, default=repr)


def config_text(values: Mapping[str, Any]) -> str:
    """A configuration as people read it: `BLOCK=64, num_warps=4`."""
    return ", ".join(f"{name}={value}" for name, value in values.items())


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What came of a configuration.

    Attributes:
        values: of the configuration.
        status: see `Status`.
        reason: why it cannot win; of `ok` which outputs could not be judged, if any.
        samples: seconds of the timed runs, in their order.
        predicted: seconds on the target by the cost model; None without a target.
        resources: static ones on the target; empty without one.
        reference: key of the configuration that its outputs were compared with.
        checks: by which it was judged, see `bench.Checks`.
        conditions: clocks and temperature of the device when it was timed, if they are told.
        tried: when, as the store tells it; empty for a trial of this run.
    """

    values: Mapping[str, Any]
    status: Status
    reason: str = ""
    samples: Sequence[float] = ()
    predicted: float | None = None
    resources: Mapping[str, Any] | None = None
    reference: str = ""
    checks: str = ""
    conditions: Mapping[str, float] | None = None
    tried: str = field(default="", compare=False)

    @property
    def key(self) -> str:
        """Of the configuration."""
        return config_key(self.values)

    @property
    def seconds(self) -> float | None:
        """The median of the samples; None if it was not timed."""
        return statistics.median(self.samples) if self.samples else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Holds the median of what was timed with a probability of 95%; None if it may not."""
        return median_interval(self.samples)

    @property
    def cost(self) -> float | None:
        """What is to be small: measured seconds, else predicted ones; None if it cannot win."""
        if self.status != "ok":
            return None
        cost = self.predicted if self.seconds is None else self.seconds
        return None if cost is None else max(cost, LEAST_SECONDS)
