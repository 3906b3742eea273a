"""How near a launch comes to a device's speed of light, and how its programs fill the device.

Must not know how counts are made, nor where a time comes from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ttools.core.gpus.devices import Device
from ttools.profiler.counting.counts import LaunchCounts
from ttools.profiler.gpu_time.roofline import bound


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


def peaks_of(counts: LaunchCounts, device: Device) -> Peaks:
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
