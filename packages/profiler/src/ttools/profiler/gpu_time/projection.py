"""How long a launch may take on a GPU that is not there: a projection, with its assumptions.

The roofline's parts, with more of what keeps kernels from it: sectors moved in vain, units that
reach only a share of their peak, programs that do not fill the GPU, loops whose iterations wait for
memory, spilled registers. The profiler shows it as a time where its constants were fitted, to
launches on an H100 (`benchmarks/projection.py` tests them on others); the tuner ranks
configurations by it for any device. Must not know how counts are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import ceil, exp, log

from ttools.core.compilation.inspection import Inspection
from ttools.core.gpus.devices import Device
from ttools.profiler.access.requests import AccessQuality
from ttools.profiler.counting.costs import OTHER_UNITS
from ttools.profiler.counting.counts import LaunchCounts

ASSUMPTIONS = (
    "the last level of cache holds what fits into it before the launch begins; other bytes cross "
    "the memory bus once, in whole sectors; requested ones come from that cache; every unit "
    "reaches a fixed share of its peak; blocks run in waves; each iteration of a loop that loads "
    "waits a fixed time; whatever takes longest hides the rest, but not what spilled registers cost"
)
#: Of the devices that the constants were fitted to and tested on.
_TESTED = ("h100", "h200")
#: Elementary functions and divisions are made by units of a quarter of the rate of fp32.
_FUNCTIONS = 4.0
#: Of the cache, what a launch's own data may take and still be there.
_KEPT = 0.8


def is_projected(device: Device | None) -> bool:
    """Whether projections for a device are times, not only good enough to compare launches."""
    return device is not None and device.name in _TESTED


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a launch asks of a device, in seconds at its peaks.

    Attributes:
        memory: for the bytes that cross the memory bus.
        cache: for the bytes requested, at the memory's rate.
        matrix: for the products of matrix units.
        arithmetic: for all other operations.
        iterations: of its longest loop that accesses memory, times the waves of blocks.
        busy: share of the multiprocessors that have blocks, on average.
        spills: to write and read spilled registers once, at the memory's rate.
    """

    memory: float
    cache: float
    matrix: float
    arithmetic: float
    iterations: float
    busy: float
    spills: float


@dataclass(frozen=True, kw_only=True)
class Constants:
    """Shares of peaks that launches reach, and times in seconds.

    Attributes:
        memory: of the memory's bandwidth.
        cache: of the memory's bandwidth, by the last level of cache.
        matrix: of the matrix units' peak.
        arithmetic: of the other units' peak.
        iteration: what an iteration of a loop waits.
        least: what any launch takes.
    """

    memory: float = 1.02
    cache: float = 2.84
    matrix: float = 0.5
    arithmetic: float = 0.58
    iteration: float = 4.6e-7
    least: float = 0.9e-6


def work_of(
    counts: LaunchCounts,
    inspection: Inspection,
    device: Device,
    accesses: Sequence[AccessQuality] = (),
) -> Work:
    """What a launch asks of a device.

    Args:
        counts: of the launch.
        inspection: of its kernel, compiled for the device.
        device: that it is to run on.
        accesses: of the launch, as the device's warps make them; without, no sector is wasted.
    """
    multiprocessors = device.multiprocessors
    programs = max(1, counts.programs)
    requested, touched = counts.total.bytes, counts.unique
    waste = _waste(accesses)
    held, own = inspection.occupancy, inspection.resources
    at_once = multiprocessors * max(1, held.blocks if held else 1)
    rounds = ceil(programs / multiprocessors)
    matrix, arithmetic = _arithmetic(counts, device)
    crosses = 0.0 if touched * waste <= _KEPT * (device.cache or 0) else touched * waste
    return Work(
        memory=crosses / device.bandwidth,
        cache=requested * waste / device.bandwidth,
        matrix=matrix,
        arithmetic=arithmetic,
        iterations=_iterations(counts) * ceil(programs / at_once),
        busy=programs / (rounds * multiprocessors),
        spills=2 * own.spilled * own.threads * programs / device.bandwidth,
    )


def _waste(accesses: Sequence[AccessQuality]) -> float:
    """Bytes moved by each that is asked for, on average over the requested."""
    total = sum(each.trace.requested for each in accesses)
    if not total:
        return 1.0
    return sum(each.trace.requested / each.efficiency for each in accesses) / total


def _arithmetic(counts: LaunchCounts, device: Device) -> tuple[float, float]:
    matrix = other = 0.0
    for unit, count in counts.total.operations.items():
        peak = device.peak(unit)
        if unit in OTHER_UNITS:
            other += _FUNCTIONS * count / device.peaks["fp32"]
        elif peak and unit.startswith("dot "):
            matrix += count / peak
        elif peak:
            other += count / peak
    return matrix, other


def _iterations(counts: LaunchCounts) -> float:
    """Executions by a program of the line with the most of them, of those that access memory."""
    most = max((line.executions for line in counts.lines if line.bytes), default=0)
    return most / max(1, counts.programs)


def project(work: Work, constants: Constants) -> float:
    """Seconds of a launch."""
    busy = max(work.busy, 1e-3)
    # A part of the multiprocessors is enough to keep memory busy.
    fed = min(1.0, 2 * busy)
    parts = (
        work.memory / constants.memory / fed,
        work.cache / constants.cache / fed,
        work.matrix / constants.matrix / busy,
        work.arithmetic / constants.arithmetic / busy,
        work.iterations * constants.iteration,
    )
    return constants.least + max(parts) + work.spills / constants.cache


def fitted(points: Sequence[tuple[Work, float]], rounds: int = 8) -> Constants:
    """The constants that project measured launches best: by the mean of squared log ratios."""
    best = Constants()

    def error(constants: Constants) -> float:
        return sum(log(project(work, constants) / seconds) ** 2 for work, seconds in points)

    for step in [0.5 / 1.5**n for n in range(rounds)]:
        for name in (field.name for field in fields(Constants)):
            tried = [
                replace(best, **{name: getattr(best, name) * exp(k * step)})
                for k in (0, -2, -1, 1, 2)
            ]
            best = min(tried, key=error)
    return best
