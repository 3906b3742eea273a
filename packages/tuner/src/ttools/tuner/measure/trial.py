"""What is known of a configuration: whether it may win, why not, and how long it takes.

Plain data between those who run, store and report. Must not know any of them.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from ttools.tuner.cost.limits import StaticResources
from ttools.tuner.measure.confidence import median_interval
from ttools.tuner.space.candidate import config_key

#: What a file may have for a number: JSON's readers take infinities and NaN, too.
Finite = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
#: A launch without programs takes no time at all; ratios of costs need some.
LEAST_SECONDS = 1e-9
#: `over_limit`: does not fit on the target; `failed`: does not compile or run; `defect`: the
#: sanitizer found an error; `wrong`: other outputs than the reference; `crashed`: it ended the
#: process that ran it; `timed_out`: it did not end in time; `killed`:
#: something else ended that process, twice. Only `ok` can win.
Status = Literal["ok", "over_limit", "failed", "defect", "wrong", "crashed", "timed_out", "killed"]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What came of a configuration.

    Attributes:
        status: see `Status`.
        reason: why it cannot win; of `ok` which outputs could not be compared, if any.
        samples: seconds of the timed runs, in their order.
        predicted: seconds on the target by the cost model; None without a target.
        resources: static ones on the target; empty without one.
        reference: key of the configuration that its outputs were compared with.
        checks: that it was verified by, see `checks.Checks`.
        conditions: clocks and temperature of the device when it was timed, if they are known.
        same_as: key of a configuration that makes the same launch, whose trial this is; empty for
            one of its own.
        tried: when, by the store; empty for a trial of this run.
    """

    values: Mapping[str, Any]
    status: Status
    reason: str = ""
    samples: tuple[Finite, ...] = ()
    predicted: Finite | None = None
    resources: StaticResources | None = None
    reference: str = ""
    checks: str = ""
    conditions: Mapping[str, Finite] | None = None
    same_as: str = ""
    tried: str = field(default="", compare=False)

    @property
    def key(self) -> str:
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
