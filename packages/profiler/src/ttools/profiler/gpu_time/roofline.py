"""How long a launch must take on a GPU at least, and what keeps it from being shorter.

The model: memory moves every byte that is touched once, at peak bandwidth; each unit does its
operations at its peak rate, elementary functions at that of special-function units, integers at
what a multiprocessor can issue; all of them at the same time. Real launches take longer: this is a
bound, no prediction. Must not know how counts are made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ttools.core.gpus.devices import Device
from ttools.profiler.counting.costs import OTHER_UNITS
from ttools.profiler.counting.counts import LaunchCounts

ASSUMPTIONS = (
    "each byte crosses the memory bus once, at peak bandwidth; every unit works at its peak; "
    "nothing waits for anything: a bound, no prediction"
)


def assumptions_of(device: Device, limits: Iterable[Any]) -> str:
    """What bounds on a device assume, and which of what limits them its maker does not confirm.

    Args:
        device: that the bounds are of.
        limits: what limits each, as `Bound.limited_by`; other values are left out.
    """
    names = sorted({each for each in limits if isinstance(each, str)})
    doubts = [name for name in names if not device.is_confirmed(name)]
    if not doubts:
        return ASSUMPTIONS
    return (
        f"{ASSUMPTIONS}; bounds on {device.name} by {' and '.join(doubts)} rest on figures that "
        f"its maker does not confirm ({device.source})"
    )


@dataclass(frozen=True, kw_only=True)
class Bound:
    """The least time of a launch on a device.

    Attributes:
        seconds: at least.
        limited_by: `memory`, or the unit with the most to do.
        parts: seconds that each of them needs.
    """

    seconds: float
    limited_by: str
    parts: dict[str, float]


def bound(counts: LaunchCounts, device: Device) -> Bound:
    """The roofline's bound."""
    parts = {"memory": counts.unique / device.bandwidth}
    for unit, count in counts.total.operations.items():
        peak = device.peak(unit)
        if peak and (unit not in OTHER_UNITS or unit in ("function", "integer")):
            parts[unit] = count / peak
    limited_by = max(parts, key=lambda name: parts[name])
    return Bound(seconds=parts[limited_by], limited_by=limited_by, parts=parts)
