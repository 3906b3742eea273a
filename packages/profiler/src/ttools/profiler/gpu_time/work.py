"""The work of a launch on a GPU: cycles of units, latencies, bytes and atomics.

The work is derived from the machine code and the trip counts of its loops; without machine code, it
is estimated from the counts of the launch. The rates of a multiprocessor are those that NVIDIA
publishes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf

import numpy as np
from numpy.typing import NDArray

from ttools.core.compilation.machine_code import MachineCode
from ttools.core.gpus.devices import Device
from ttools.profiler.counting.counts import WorkCounts
from ttools.profiler.gpu_time.instruction_mix import executed_of
from ttools.profiler.gpu_time.trip_counts import trip_counts
from ttools.profiler.gpu_time.units import unit_of
from ttools.profiler.gpu_time.waits import waits_of

#: One figure of a launch, or an array with this figure of several launches.
Figure = float | NDArray[np.float64]
#: Number of f32 lanes of a multiprocessor, if it is not 128 (CUDA C++ Programming Guide).
_LANES = {"sm_75": 64, "sm_80": 64}
_SECTOR, _WARP = 32, 32
#: Determines how steeply the hit rate falls as the data grows beyond the size of a cache.
_SUDDEN = 4
#: Atomics update sectors in the last-level cache, whose slices interleave at this many bytes.
_SLICE, _SLICES = 512, 96
#: Units whose latency is that of arithmetic.
_STEPS = (
    *("integer", "add", "move", "uniform", "product", "float", "double", "conversion"),
    *("control", "other"),
)
_NEAR = ("shuffle", "function", "vote", "shared load", "shared atomic", "local")
_FAR = ("load", "copy", "atomic")


@dataclass(frozen=True, kw_only=True)
class Access:
    """An access to memory, over all programs.

    Attributes:
        kind: Kind of the access: `load`, `store` or `atomic`.
        requested: Number of bytes that the lanes request.
        sectors: Total size of the sectors that requests of warps move, divided by the requested
            bytes.
        tile_sectors: Total size of the sectors that whole tiles touch, divided by the requested
            bytes. These sectors pass through the L1 cache.
    """

    kind: str
    requested: float
    sectors: float
    tile_sectors: float


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """The placement of programs on a multiprocessor.

    Attributes:
        warps: Number of warps per program.
        resident: Number of programs that a multiprocessor holds at once.
        shared: Bytes of shared memory per program.
        spilled: Bytes of spilled registers per program, which are kept in local memory.
    """

    warps: int
    resident: int
    shared: int = 0
    spilled: int = 0


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work of a launch on a device. Times in seconds assume peak rates.

    Attributes:
        even: Average number of programs per multiprocessor.
        waves: Number of times that the programs fill the device, at least one.
        cycle: Duration of a multiprocessor's clock cycle in seconds.
        units: Number of cycles per program of the busiest unit of a multiprocessor.
        shared: Number of cycles of shared memory per program.
        issued: Number of instructions on the longest chain of a warp.
        steps: Number of results of arithmetic on this chain.
        near: Number of results of shared memory and special functions on this chain.
        far: Number of results of memory on this chain.
        barriers: Number of barriers on this chain.
        groups: Number of matrix instructions on this chain.
        memory: Time in seconds to move the touched bytes once, in whole sectors.
        cache_ratio: Size of the last-level cache, as a multiple of the touched bytes.
        cache: Time in seconds to move, at the memory's rate, the bytes that pass through the L1
            caches, including spilled registers that these caches cannot hold.
        matrix: Time of the matrix units in seconds.
        changed: Number of sectors that atomics update in the busiest slice of the last-level cache.
        contended: Average number of atomic updates per address.
    """

    even: Figure
    waves: Figure
    cycle: Figure
    units: Figure
    shared: Figure
    issued: Figure
    steps: Figure
    near: Figure
    far: Figure
    barriers: Figure
    groups: Figure
    memory: Figure
    cache_ratio: Figure
    cache: Figure
    matrix: Figure
    changed: Figure
    contended: Figure


def work_of(
    counts: WorkCounts,
    code: MachineCode | None,
    blocks: Blocks,
    accesses: Sequence[Access],
    device: Device,
) -> Work:
    """Return the work of a launch on a device.

    Args:
        counts: Operations and bytes of the launch.
        code: Machine code of the kernel for the device; None if it cannot be read.
        blocks: Placement of the programs on multiprocessors.
        accesses: Memory accesses of the launch by the device's warps. If there are none, every
            sector is assumed to be fully used.
    """
    programs, total = max(1, counts.programs), counts.total.bytes
    lanes = _LANES.get(device.architecture, 128)
    multiprocessors = device.multiprocessors
    if code is None:
        executed, waits, shared = _estimated(counts, blocks.warps * device.target.threads)
        local = 0.0
    else:
        trips = trip_counts(code, counts, blocks.warps)
        own = executed_of(code, trips)
        executed, shared = own.units, own.shared
        local = _local(code, trips) * blocks.warps * programs
        waits = waits_of(code, trips)
    requested = _moved(accesses, total, "sectors")
    beyond = _moved(accesses, total, "tile_sectors")
    touched = counts.unique * beyond / max(1, total)
    changed = sum(e.requested * e.sectors for e in accesses if e.kind == "atomic")
    updated = _updated(counts)
    slices = min(max(1.0, updated / _SLICE), _SLICES)
    return Work(
        even=programs / multiprocessors,
        waves=max(1.0, programs / (multiprocessors * max(1, blocks.resident))),
        cycle=2 * lanes * multiprocessors / device.peaks["fp32"],
        units=max(_cycles(executed, lanes) * blocks.warps, requested / programs / 128),
        shared=(shared + executed["shuffle"] + executed["vote"]) * blocks.warps,
        issued=waits.get("issue", 0.0),
        steps=sum(waits.get(unit, 0.0) for unit in _STEPS),
        near=sum(waits.get(unit, 0.0) for unit in _NEAR),
        far=sum(waits.get(unit, 0.0) for unit in _FAR),
        barriers=waits.get("barrier", 0.0),
        groups=waits.get("matrix", 0.0),
        memory=touched / device.bandwidth,
        cache_ratio=(device.cache or 0) / max(1.0, touched),
        cache=(beyond + local * _evicted(blocks, programs, device)) / device.bandwidth,
        matrix=_matrix(counts, device),
        changed=max(changed, counts.total.atomic) / _SECTOR / slices,
        contended=counts.total.atomic / max(1, updated),
    )


def _updated(counts: WorkCounts) -> int:
    """Return the number of different bytes that atomics update.

    This is the number of different bytes that the launch writes, minus the bytes that plain stores
    request. If the difference is not positive, because some bytes are stored twice, return the
    number of different bytes that the launch writes.
    """
    difference = counts.unique_stored - counts.total.stored
    return difference if difference > 0 else counts.unique_stored


def _local(code: MachineCode, trips: Sequence[float]) -> float:
    """Return how many bytes of local memory a warp accesses because of spilled registers."""
    return sum(
        times * instruction.bytes * _WARP
        for number, times in (*enumerate(trips), (None, 1.0))
        for _, instruction in code.body(number)
        if unit_of(instruction) == "local" and not instruction.rare
    )


def _evicted(blocks: Blocks, programs: int, device: Device) -> float:
    """Return the share of accesses to local memory that miss the L1 cache."""
    limits = device.target.limits
    if not blocks.spilled or limits is None or not limits.unified:
        return 0.0
    resident = min(blocks.resident, ceil(programs / device.multiprocessors))
    capacity = max(0, limits.unified - resident * blocks.shared)
    return 1 / (1 + (capacity / (resident * blocks.spilled)) ** _SUDDEN)


def _moved(accesses: Sequence[Access], total: int, level: str) -> float:
    """Return how many bytes all requests move, extrapolated from the known accesses."""
    requested = sum(access.requested for access in accesses)
    if not requested:
        return float(total)
    return (
        sum(access.requested * float(getattr(access, level)) for access in accesses)
        * total
        / requested
    )


def _cycles(executed: Counter[str], lanes: int) -> float:
    """Return the cycles that the busiest unit of a multiprocessor takes for a warp."""
    return max(
        executed.total() / 4,
        executed["integer"] / 2,
        (executed["float"] + executed["product"] + 2 * executed["double"]) * 32 / lanes,
        2 * executed["function"] + executed["conversion"],
    )


def _estimated(counts: WorkCounts, threads: int) -> tuple[Counter[str], Mapping[str, float], float]:
    """Estimate a warp's instructions and waits by unit, and its wavefronts, without machine code.

    Each thread is assumed to execute an equal part of the operations, and of accesses of 16 bytes.
    """
    programs = max(1, counts.programs)
    executed: Counter[str] = Counter()
    for unit, n in counts.total.operations.items():
        if not unit.startswith("dot "):
            own = "function" if unit in ("function", "divide", "library") else "float"
            executed[own] += ceil(n / programs / threads)
    executed["load"] = ceil(counts.total.bytes / programs / threads / 16)
    trips = max((line.executions for line in counts.lines if line.bytes), default=0) / programs
    return executed, {"load": trips, "issue": executed.total()}, 0.0


def _matrix(counts: WorkCounts, device: Device) -> float:
    products = counts.total.operations.items()
    return sum(n / (device.peak(unit) or inf) for unit, n in products if unit.startswith("dot "))
