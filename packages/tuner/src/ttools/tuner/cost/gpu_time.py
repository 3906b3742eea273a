"""How long a configuration would take on a GPU, roughly: good enough to rank, never to reject.

    seconds = max(max(memory, compute) / hiding * rounds, latency) + spills

- memory: bytes touched at the memory's bandwidth, or bytes requested at that of the second-level
  cache, whichever takes longer;
- compute: the roofline's, each unit at its peak;
- hiding: how much of the latency the warps resident on a multiprocessor hide, 1 from 16 on;
- latency: iterations that load, one after the other, of the programs that share a slot of a
  multiprocessor; as many loads are in flight as the pipeline has stages for;
- rounds: the fullest multiprocessor decides, so a remainder of programs costs a whole round;
- spills: each spilled byte of each thread is written and read once, through that cache.

Must not know how counts and resources are found.
"""

from __future__ import annotations

import re

from ttools.core.compilation.resources import Occupancy, Resources
from ttools.core.errors import UsageError
from ttools.core.gpus.devices import DEVICES, Device, read_device
from ttools.core.gpus.targets import Target, read_target
from ttools.profiler.counting.counts import LaunchCounts
from ttools.profiler.gpu_time.roofline import bound

#: Multiprocessors or compute units, from the sources that `ttools.core.gpus.devices` names.
MULTIPROCESSORS = {
    "t4": 40,
    "a100": 108,
    "a10": 72,
    "rtx3090": 82,
    "l40s": 142,
    "rtx4090": 128,
    "h100": 132,
    "h200": 132,
    "b200": 148,
    "rtx5090": 170,
    "mi250x": 104,
    "mi300x": 304,
    "mi355x": 256,
}
#: An assumption: second-level caches deliver about this many times what memory does.
CACHE_RATIO = 3.0
#: An assumption: this many resident warps hide the latency of memory.
HIDING_WARPS = 16
#: An assumption: seconds from a load to its use.
LATENCY = 0.5e-6


def predict(
    counts: LaunchCounts,
    own: Resources,
    held: Occupancy | None,
    device: Device,
    stages: int = 1,
) -> float:
    """Seconds of a launch on a device.

    Args:
        counts: what the launch does.
        own: static resources of the kernel.
        held: its occupancy; None if the device's limits are not known, then latency is hidden.
        device: with its peak rates.
        stages: of its pipelined loops.
    """
    parts = dict(bound(counts, device).parts)
    cache = device.bandwidth * CACHE_RATIO
    parts["cache"] = counts.total.bytes / cache
    programs = max(1, counts.programs)
    processors = MULTIPROCESSORS[device.name]
    rounds = -(-programs // processors)
    hiding = 1.0
    if held is not None:
        resident = min(held.blocks, rounds) * own.warps
        hiding = min(1.0, resident / HIDING_WARPS)
    spills = 2 * own.spilled * own.threads * programs / cache
    throughput = max(parts.values()) / hiding * (rounds * processors / programs)
    return max(throughput, _latency(counts, held, processors, stages)) + spills


def _latency(counts: LaunchCounts, held: Occupancy | None, processors: int, stages: int) -> float:
    programs = max(1, counts.programs)
    loads = [line.executions for line in counts.lines if line.loaded]
    slots = processors * max(1, held.blocks if held else 1)
    rounds = -(-programs // slots)
    return rounds * max(loads, default=0) / programs * LATENCY / max(1, stages - 1)


def read_gpu(text: str) -> Device:
    """A device by its name (`h100`) or by its architecture (`sm_90`).

    Raises:
        UsageError: none of that name is known.
    """
    if re.match(r"(?i)(cuda:|hip:|sm_?\d|gfx|\d+a?$)", text.strip()):
        return device_of(read_target(text))
    return read_device(text)


def device_of(target: Target) -> Device:
    """The first device in the table with a target's architecture, to predict for.

    Raises:
        UsageError: there is none.
    """
    for device in DEVICES.values():
        if device.architecture == target.name:
            return device
    known = ", ".join(dict.fromkeys(each.architecture for each in DEVICES.values()))
    raise UsageError(f"no rates are known of a device with {target.name}; choose from {known}")
