"""The result of trying a configuration: whether it may win, why it may not, and its time."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta

from ttools.tuner.cost.limits import StaticResources
from ttools.tuner.measure.confidence import median_interval
from ttools.tuner.space.candidate import config_key

#: A finite number. Files may contain only such numbers; JSON readers also accept infinities and
#: NaN.
Finite = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
#: Lower bound of costs. It is positive because costs are divided by each other, and a launch
#: without programs takes no time.
LEAST_SECONDS = 1e-9
#: `over_limit`: does not fit the target. `failed`: does not compile or run. `defect`: the sanitizer
#: found an error. `wrong`: outputs differ from the reference. `crashed`: terminated the process
#: that ran it. `timed_out`: exceeded the time limit. `killed`: something else terminated the
#: process that ran it, twice. Only a configuration with status `ok` can win.
Status = Literal["ok", "over_limit", "failed", "defect", "wrong", "crashed", "timed_out", "killed"]


class ProjectedInterval(TypedDict):
    """The interval of a projected time in seconds, and why it is less certain than usual."""

    low: Finite
    high: Finite
    outside: list[str]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The result of trying a configuration.

    Attributes:
        reason: Reason why the configuration cannot win; if the status is `ok`, names the outputs
            that could not be compared, if any.
        samples: Times of the timed runs in seconds, in order.
        predicted: Projected seconds on the target; None without a target.
        projection: Interval of the projected time; None without a target.
        resources: Static resource use on the target; None without a target.
        reference: Key of the configuration with whose outputs its outputs were compared.
        checks: Options under which the configuration was verified, see `checks.Checks`.
        conditions: Clocks and temperature of the device during timing, if available.
        same_as: Key of the configuration that makes the same launch and whose trial this is a copy
            of; empty if the configuration was tried itself.
        bit_equal: True if the outputs have the same bits as those of the configuration with which
            they were compared; None if they were compared with the user's function.
        tried: Time at which a stored trial was made; empty for a trial of this run.
    """

    values: Mapping[str, Any]
    status: Status
    reason: str = ""
    samples: tuple[Finite, ...] = ()
    predicted: Finite | None = None
    projection: ProjectedInterval | None = None
    resources: StaticResources | None = None
    reference: str = ""
    checks: str = ""
    conditions: Mapping[str, Finite] | None = None
    same_as: str = ""
    bit_equal: bool | None = None
    tried: str = field(default="", compare=False)

    @property
    def key(self) -> str:
        return config_key(self.values)

    @property
    def seconds(self) -> float | None:
        """The median of the samples in seconds; None if the configuration was not timed."""
        return statistics.median(self.samples) if self.samples else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95% confidence interval of the median; None if there are too few samples."""
        return median_interval(self.samples)

    @property
    def cost(self) -> float | None:
        """Measured seconds, or else predicted seconds; None if the configuration cannot win."""
        if self.status != "ok":
            return None
        cost = self.predicted if self.seconds is None else self.seconds
        return None if cost is None else max(cost, LEAST_SECONDS)
