"""Lower bounds of launch times on a GPU, and the resource that limits them.

The model assumes that memory moves every touched byte once at peak bandwidth, that each unit works
at its peak rate (elementary functions at the rate of special-function units, integers at the issue
rate of a multiprocessor), and that all of this happens at the same time. Atomics on one address run
one after the other, if the device's rate was measured (`benchmarks/atomics.py`). The result is a
lower bound, not a prediction: real launches take longer. The bound holds for launches whose data is
in memory. Data that earlier launches left in the last-level cache need not cross the memory bus, so
a launch that finds its data there can take less time than the bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ttools.core.gpus.devices import Device
from ttools.profiler.counting.costs import OTHER_UNITS
from ttools.profiler.counting.counts import WorkCounts

ASSUMPTIONS = (
    "each byte crosses the memory bus once, at peak bandwidth; every unit works at its peak rate; "
    "nothing waits: this is a lower bound, not a prediction"
)


#: Name of the bottleneck of launches whose atomic operations contend for the same elements.
ATOMICS = "atomics on one address"
#: With fewer updates per element than this, the updates take less time than a launch's overhead.
_FEW_UPDATES = 1000


def atomics_on_one(element: str) -> str:
    """Return the name of the peak rate of updates of one element; `element` is MLIR's type name."""
    return f"{ATOMICS} ({element})"


def condition_of(device: Device) -> str:
    """Return the assumptions behind bounds on a device, and the condition for them to hold."""
    cache = f", up to {device.cache / 2**20:,.0f} MiB," if device.cache else ""
    return (
        f"{ASSUMPTIONS}; it holds if the data is in memory: data that earlier launches left in the "
        f"last-level cache{cache} does not cross the bus"
    )


def assumptions_of(device: Device, rows: Iterable[Mapping[Any, Any]]) -> str:
    """Describe the assumptions behind the bounds on a device, and why some bounds are doubtful."""
    return "; ".join([condition_of(device), *doubts_of(device, rows)])


def doubts_of(device: Device, rows: Iterable[Mapping[Any, Any]]) -> Iterator[str]:
    """Yield what the bounds of some kernels leave out, and which figures are not confirmed.

    Args:
        rows: One row per kernel with `kernel`, `limited_by` and `updates`, see
            `report.frames.kernel_frame`.
    """
    rows = list(rows)
    names = sorted({row["limited_by"] for row in rows if isinstance(row["limited_by"], str)})
    if doubts := [name for name in names if not device.is_confirmed(name)]:
        yield (
            f"bounds on {device.name} by {' and '.join(doubts)} use figures that its vendor does "
            f"not confirm ({device.source})"
        )
    often = {row["kernel"]: row["updates"] for row in rows if row["updates"] >= _FEW_UPDATES}
    if often and not any(name.startswith(ATOMICS) for name in device.peaks):
        counts = [f"{updates:,.0f} times in {kernel}" for kernel, updates in often.items()]
        yield (
            f"atomics update an element {', '.join(counts)}; the bounds leave this out, "
            f"because the rate of such updates on {device.name} is unknown"
        )


@dataclass(frozen=True, kw_only=True)
class Bound:
    """The minimum time of a launch on a device.

    Attributes:
        seconds: Minimum time of the launch.
        limited_by: The resource that takes longest: `memory`, `ATOMICS`, or a unit such as `fp32`.
        parts: Minimum time of each resource in seconds.
    """

    seconds: float
    limited_by: str
    parts: dict[str, float]


def bound(counts: WorkCounts, device: Device) -> Bound:
    """Return the roofline model's lower bound on the time of a launch."""
    parts = {"memory": counts.unique / device.bandwidth}
    for unit, count in counts.total.operations.items():
        peak = device.peak(unit)
        if peak and (unit not in OTHER_UNITS or unit in ("function", "integer")):
            parts[unit] = count / peak
    # The busiest element has at least the average number of updates.
    for element, often in counts.updates.items():
        if rate := device.peak(atomics_on_one(element)):
            parts[ATOMICS] = max(parts.get(ATOMICS, 0.0), often / rate)
    limited_by = max(parts, key=lambda name: parts[name])
    return Bound(seconds=parts[limited_by], limited_by=limited_by, parts=parts)


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """The minimum times of a launch for computation and for memory accesses.

    Attributes:
        compute: Time of the busiest unit in seconds.
        unit: Name of that unit; empty if no unit has a known rate.
        memory: Time for moving the touched bytes in seconds.
    """

    compute: float
    unit: str
    memory: float


def peaks_of(counts: WorkCounts, device: Device) -> Peaks:
    """Return the minimum times of a launch for computation and for memory accesses."""
    parts = dict(bound(counts, device).parts)
    memory = parts.pop("memory")
    unit = max(parts, key=lambda name: parts[name], default="")
    return Peaks(compute=parts.get(unit, 0.0), unit=unit, memory=memory)


def waves_of(programs: float, resident: int, device: Device) -> float:
    """Return the number of times that the programs of a launch fill the device.

    Args:
        programs: Number of programs of the launch.
        resident: Number of programs that a multiprocessor holds at once.
    """
    return programs / (device.multiprocessors * max(1, resident))


def last_wave(waves: float) -> float:
    """Return the share of the device that the last wave fills, 0 to 1."""
    return waves - math.ceil(waves) + 1 if waves > 0 else 0.0
