"""How long a launch may take on a GPU that is not there: a projection, with its assumptions.

The roofline's parts, with more of what keeps kernels from it: sectors that are moved in vain, units
that reach only a share of their peak, programs that do not fill the multiprocessors, and a least
time of any launch. The constants are fitted to measured launches (`benchmarks/projection.py`). Must
not know how counts are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, log
from typing import Any

from ttools.core.compilation.inspection import Inspection
from ttools.profiler.counting.costs import OTHER_UNITS
from ttools.profiler.counting.counts import LaunchCounts
from ttools.profiler.devices import Device

ASSUMPTIONS = (
    "bytes touched cross the memory bus once, in whole sectors; requested bytes come from the L2 "
    "cache; every unit reaches a fixed share of its peak; blocks run in waves; whatever takes "
    "longest hides the rest; a launch takes a least time"
)
#: Requested bytes per second of a Hopper GPU's L2 cache, as multiple of its memory's.
_CACHE = 2.5
#: Elementary functions and divisions are made by units of a quarter of the rate of fp32.
_FUNCTIONS = 4.0


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a launch asks of a device, in seconds at its peaks.

    Attributes:
        memory: for the bytes touched, in whole sectors.
        cache: for the bytes requested, in whole sectors.
        matrix: for the products of matrix units.
        arithmetic: for all other operations.
        fill: share of the multiprocessors' places for blocks that are in use on average.
    """

    memory: float
    cache: float
    matrix: float
    arithmetic: float
    fill: float


@dataclass(frozen=True, kw_only=True)
class Constants:
    """Shares of peaks that launches reach, and their least time.

    Attributes:
        memory: of the memory's bandwidth.
        cache: of the L2 cache's.
        matrix: of the matrix units' peak.
        arithmetic: of the other units' peak.
        least: seconds that any launch takes.
    """

    memory: float = 0.85
    cache: float = 0.6
    matrix: float = 0.5
    arithmetic: float = 0.5
    least: float = 2.5e-6


def work_of(
    counts: LaunchCounts,
    inspection: Inspection,
    accesses: Any,
    device: Device,
    multiprocessors: int,
) -> Work:
    """What a launch asks of a device.

    Args:
        counts: of the launch.
        inspection: of its kernel, compiled for the device.
        accesses: the frame of the kernel's accesses, see `access.frame`.
        device: that it is to run on.
        multiprocessors: that the device has.
    """
    moved = counts.total.bytes if counts.unique is None else counts.unique
    waste = 1.0
    if len(accesses):
        used = float((accesses["efficiency"]).mean())
        waste = 1 / max(used, 1 / 32)
    held = inspection.occupancy
    places = multiprocessors * max(1, held.blocks if held else 1)
    waves = max(1, ceil(counts.programs / places))
    matrix = arithmetic = 0.0
    for unit, count in counts.total.operations.items():
        peak = device.peak(unit)
        if unit.startswith("dot ") and peak:
            matrix += count / peak
        elif unit in OTHER_UNITS:
            arithmetic += _FUNCTIONS * count / device.peaks["fp32"]
        elif peak:
            arithmetic += count / peak
    requested = counts.total.bytes
    # What is fetched in vain may be used by a later request, as long as a cache keeps it.
    wasted = min(moved * waste, max(moved, requested * waste))
    return Work(
        memory=wasted / device.bandwidth,
        cache=requested * waste / (_CACHE * device.bandwidth),
        matrix=matrix,
        arithmetic=arithmetic,
        fill=min(1.0, counts.programs / (waves * places)),
    )


def project(work: Work, constants: Constants) -> float:
    """Seconds of a launch."""
    # Memory is busy when part of the multiprocessors are; arithmetic is theirs alone.
    shared = min(1.0, max(work.fill, 1e-3) * 2)
    parts = (
        work.memory / constants.memory / shared,
        work.cache / constants.cache / shared,
        work.matrix / constants.matrix / max(work.fill, 1e-3),
        work.arithmetic / constants.arithmetic / max(work.fill, 1e-3),
    )
    return constants.least + max(parts)


def fitted(points: Sequence[tuple[Work, float]], rounds: int = 6) -> Constants:
    """The constants that project measured launches best: by the mean of squared log ratios."""
    best = Constants()

    def error(constants: Constants) -> float:
        return sum(log(project(work, constants) / seconds) ** 2 for work, seconds in points)

    for step in [0.7 / 2**n for n in range(rounds)]:
        for name in ("least", "memory", "cache", "matrix", "arithmetic"):
            tried = [
                replace(best, **{name: _bounded(name, getattr(best, name) * exp(k * step))})
                for k in (-2, -1, 0, 1, 2)
            ]
            best = min(tried, key=error)
    return best


def _bounded(name: str, value: float) -> float:
    """Shares of peaks lie below 1."""
    return value if name == "least" else min(1.0, max(0.01, value))
