"""What a launch asks of a GPU: cycles of its units, results waited for, bytes and atomics.

Read off the machine code, times the turns of its loops, where there is any; else estimated from the
counts. Owns the rates that makers publish of a multiprocessor.
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
from ttools.profiler.gpu_time.loop_turns import loop_turns
from ttools.profiler.gpu_time.units import unit_of
from ttools.profiler.gpu_time.waits import waits_of

#: Of one launch, or of each of several.
Figure = float | NDArray[np.float64]
#: Lanes of f32 in a multiprocessor, where it has not 128 (NVIDIA's programming guide).
_LANES = {"sm_75": 64, "sm_80": 64}
_SECTOR, _WARP = 32, 32
#: How suddenly data that grows beyond a cache is no longer held.
_SUDDEN = 4
#: Atomics change sectors where the last level of cache has them: in slices that take turns at so
#: many bytes.
_SLICE, _SLICES = 512, 96
#: Results that come one after the other, by unit.
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
        kind: `load`, `store`, `atomic`.
        requested: bytes.
        sectors: bytes that whole sectors of warps' requests have, by each that is asked for.
        tile_sectors: the same of whole tiles, which is what goes beyond the L1 cache.
    """

    kind: str
    requested: float
    sectors: float
    tile_sectors: float


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """How programs lie on a multiprocessor.

    Attributes:
        warps: of a program.
        resident: programs that a multiprocessor holds at once.
        shared: bytes of shared memory of a program.
        spilled: bytes of its registers that local memory keeps.
    """

    warps: int
    resident: int
    shared: int = 0
    spilled: int = 0


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a launch asks of a device; times are at its peaks.

    Attributes:
        even: programs of each multiprocessor, on average.
        waves: of programs, at least one.
        cycle: of a multiprocessor, in seconds.
        units: cycles of a multiprocessor's busiest unit for a program.
        shared: cycles of its shared memory for a program.
        issued: instructions of the longest chain of a warp.
        steps: results of arithmetic on it.
        near: of shared memory and special functions on it.
        far: of memory on it.
        barriers: on it.
        groups: matrix instructions on it.
        memory: seconds for the bytes touched, each once, in whole sectors.
        held: how often the last level of cache holds these bytes.
        cache: seconds for the bytes beyond the L1 caches, registers' included that these do not
            hold, at the memory's rate.
        matrix: seconds of the matrix units.
        changed: sectors that atomics change in the busiest slice of the last level of cache.
        contended: atomics on one address.
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
    held: Figure
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
    """What a launch asks of a device.

    Args:
        code: of its kernel, for the device; None where it cannot be read.
        blocks: how its programs lie on the device.
        accesses: of the launch, as the device's warps make them; without, no sector is wasted.
    """
    programs, total = max(1, counts.programs), counts.total.bytes
    lanes = _LANES.get(device.architecture, 128)
    multiprocessors = device.multiprocessors
    if code is None:
        executed, waits, shared = _estimated(counts, blocks.warps * device.target.threads)
        local = 0.0
    else:
        turns = loop_turns(code, counts, blocks.warps)
        own = executed_of(code, turns)
        executed, shared = own.units, own.shared
        local = _local(code, turns) * blocks.warps * programs
        waits = waits_of(code, turns)
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
        held=(device.cache or 0) / max(1.0, touched),
        cache=(beyond + local * _evicted(blocks, programs, device)) / device.bandwidth,
        matrix=_matrix(counts, device),
        changed=max(changed, counts.total.atomic) / _SECTOR / slices,
        contended=counts.total.atomic / max(1, updated),
    )


def _updated(counts: WorkCounts) -> int:
    """Bytes that atomics touch: of all that are changed, those that stores beside them leave over.

    Where stores take all, as they do when they write the same place twice, the bytes of both.
    """
    left = counts.unique_stored - counts.total.stored
    return left if left > 0 else counts.unique_stored


def _local(code: MachineCode, turns: Sequence[float]) -> float:
    """Bytes of local memory that a warp accesses: of registers that do not hold all."""
    return sum(
        times * instruction.bytes * _WARP
        for number, times in (*enumerate(turns), (None, 1.0))
        for _, instruction in code.body(number)
        if unit_of(instruction) == "local" and not instruction.rare
    )


def _evicted(blocks: Blocks, programs: int, device: Device) -> float:
    """The share of local memory's accesses that the L1 cache, beside shared memory, cannot hold."""
    limits = device.target.limits
    if not blocks.spilled or limits is None or not limits.unified:
        return 0.0
    there = min(blocks.resident, ceil(programs / device.multiprocessors))
    left = max(0, limits.unified - there * blocks.shared)
    return 1 / (1 + (left / (there * blocks.spilled)) ** _SUDDEN)


def _moved(accesses: Sequence[Access], total: int, level: str) -> float:
    """Bytes moved for all that is requested, if the accesses that are known stand for the rest."""
    known = sum(each.requested for each in accesses)
    if not known:
        return float(total)
    return sum(e.requested * float(getattr(e, level)) for e in accesses) * total / known


def _cycles(executed: Counter[str], lanes: int) -> float:
    """Of a multiprocessor's busiest unit, for a warp."""
    return max(
        executed.total() / 4,
        executed["integer"] / 2,
        (executed["float"] + executed["product"] + 2 * executed["double"]) * 32 / lanes,
        2 * executed["function"] + executed["conversion"],
    )


def _estimated(counts: WorkCounts, threads: int) -> tuple[Counter[str], Mapping[str, float], float]:
    """Instructions of a warp by unit, waits, and turns of shared memory, without machine code.

    Operations and accesses of 16 bytes, spread over threads.
    """
    programs = max(1, counts.programs)
    executed: Counter[str] = Counter()
    for unit, n in counts.total.operations.items():
        if not unit.startswith("dot "):
            own = "function" if unit in ("function", "divide", "library") else "float"
            executed[own] += ceil(n / programs / threads)
    executed["load"] = ceil(counts.total.bytes / programs / threads / 16)
    turns = max((line.executions for line in counts.lines if line.bytes), default=0) / programs
    return executed, {"load": turns, "issue": executed.total()}, 0.0


def _matrix(counts: WorkCounts, device: Device) -> float:
    products = counts.total.operations.items()
    return sum(n / (device.peak(unit) or inf) for unit, n in products if unit.startswith("dot "))
