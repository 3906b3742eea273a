"""How long a launch must take on a GPU at least, and what keeps it from being shorter.

The model: memory moves every byte that is touched once, at peak bandwidth; each unit does its
operations at its peak rate, elementary functions at that of special-function units, integers at
what a multiprocessor can issue; the last level of cache updates one element after the other where
how fast it does was measured (`benchmarks/atomics.py`); all of them at the same time.
Real launches take longer: this is a bound, no prediction. It holds for launches that find their
data in memory. What the last level of cache still holds of the launch before need not cross the
memory bus, so that such a launch can be faster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ttools.core.gpus.devices import Device
from ttools.profiler.counting.costs import OTHER_UNITS
from ttools.profiler.counting.counts import WorkCounts

ASSUMPTIONS = (
    "each byte crosses the memory bus once, at peak bandwidth; every unit works at its peak; "
    "nothing waits for anything: a bound, no prediction"
)


#: What limits launches whose atomics update the same elements.
ATOMICS = "atomics on one address"
#: Fewer updates of an element take less time than a launch.
_FEW_UPDATES = 1000


def atomics_on_one(element: str) -> str:
    """The unit that updates one element of a type, by MLIR's name of it."""
    return f"{ATOMICS} ({element})"


def condition_of(device: Device) -> str:
    """Return what bounds on a device assume, and when they hold."""
    cache = f", up to {device.cache / 2**20:,.0f} MiB," if device.cache else ""
    return (
        f"{ASSUMPTIONS}; it holds for launches that find their data in memory: what the last level "
        f"of cache{cache} holds of the launches before need not cross the bus"
    )


def assumptions_of(device: Device, rows: Iterable[Mapping[Any, Any]]) -> str:
    """What bounds on a device assume, what they leave out, and what nobody confirms.

    Args:
        rows: a kernel each: `kernel`, `limited_by` and `updates`, see `report.frames.kernel_frame`.
    """
    rows = list(rows)
    parts = [condition_of(device)]
    names = sorted({row["limited_by"] for row in rows if isinstance(row["limited_by"], str)})
    if doubts := [name for name in names if not device.is_confirmed(name)]:
        parts.append(
            f"bounds on {device.name} by {' and '.join(doubts)} rest on figures that its maker "
            f"does not confirm ({device.source})"
        )
    often = {row["kernel"]: row["updates"] for row in rows if row["updates"] >= _FEW_UPDATES}
    if often and not any(name.startswith(ATOMICS) for name in device.peaks):
        said = [f"{updates:,.0f} times in {kernel}" for kernel, updates in often.items()]
        parts.append(
            f"atomics update an element {', '.join(said)}, which the bounds leave out: how fast "
            f"{device.name} does that is not known"
        )
    return "; ".join(parts)


@dataclass(frozen=True, kw_only=True)
class Bound:
    """The least time of a launch on a device.

    Attributes:
        seconds: at least.
        limited_by: `memory`, `ATOMICS`, or the unit with the most to do.
        parts: seconds that each of them needs.
    """

    seconds: float
    limited_by: str
    parts: dict[str, float]


def bound(counts: WorkCounts, device: Device) -> Bound:
    """The roofline's bound."""
    parts = {"memory": counts.unique / device.bandwidth}
    for unit, count in counts.total.operations.items():
        peak = device.peak(unit)
        if peak and (unit not in OTHER_UNITS or unit in ("function", "integer")):
            parts[unit] = count / peak
    # The busiest element is updated at least as often as they are on average.
    for element, often in counts.updates.items():
        if rate := device.peak(atomics_on_one(element)):
            parts[ATOMICS] = max(parts.get(ATOMICS, 0.0), often / rate)
    limited_by = max(parts, key=lambda name: parts[name])
    return Bound(seconds=parts[limited_by], limited_by=limited_by, parts=parts)


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """Seconds that the device needs at its peaks.

    Attributes:
        compute: of the unit with most to do.
        unit: which that is; empty where no unit has a known rate.
        memory: for the bytes touched.
    """

    compute: float
    unit: str
    memory: float


def peaks_of(counts: WorkCounts, device: Device) -> Peaks:
    """What a launch needs at least of each side."""
    parts = dict(bound(counts, device).parts)
    memory = parts.pop("memory")
    unit = max(parts, key=lambda name: parts[name], default="")
    return Peaks(compute=parts.get(unit, 0.0), unit=unit, memory=memory)


def waves_of(programs: float, resident: int, device: Device) -> float:
    """How often the programs fill the device: below 1 they do not fill it once.

    Args:
        resident: that a multiprocessor holds at once.
    """
    return programs / (device.multiprocessors * max(1, resident))


def last_wave(waves: float) -> float:
    """How full the last wave is, 0 to 1: its tail leaves the rest of the device idle."""
    return waves - math.ceil(waves) + 1 if waves > 0 else 0.0
