"""A model of launch times on a GPU: the work of a launch at the achievable shares of peak rates.

The longest part hides most of the others. The constants are the same for all kernels, and are
fitted to launches of many kernels on an H100 and an H200. `benchmarks/gpu_time_model.py` fits them,
also without each kernel in turn, and prints the errors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ttools.profiler.gpu_time.work import Figure, Work


@dataclass(frozen=True, kw_only=True)
class Constants:
    """Constants that no vendor publishes.

    Attributes:
        least: Seconds of any launch.
        memory: Achievable share of the memory's bandwidth.
        cache: Bandwidth of the last level of cache, relative to the memory's.
        kept: Share of that cache which keeps data of earlier launches.
        units: Achievable share of the units' peak rates.
        shared: Achievable share of the rate of shared memory.
        matrix: Achievable share of the rate of the matrix units.
        step: Latency of arithmetic in cycles.
        near: Latency of shared memory and special functions in cycles.
        far: Latency of the last level of cache in cycles; memory takes twice as long.
        barrier: Cycles of a barrier.
        group: Cycles of a matrix instruction.
        changed: Seconds in which a slice of the last level of cache updates a sector.
        contended: Seconds between atomics on one address.
        sharpness: Exponent that says how completely the longest part hides the others.
    """

    least: float = 1.46e-06
    memory: float = 0.928
    cache: float = 2.97
    kept: float = 0.705
    units: float = 0.944
    shared: float = 0.779
    matrix: float = 1.0
    step: float = 5.0
    near: float = 12.7
    far: float = 239.0
    barrier: float = 87.6
    group: float = 26.8
    changed: float = 8.72e-10
    contended: float = 2.63e-09
    sharpness: float = 1.91


def seconds_of(work: Work, constants: Constants) -> Figure:
    """Return the seconds of a launch, or of each of several."""
    c, w = constants, work
    busiest = np.ceil(w.even)
    missed = 1 / (1 + (w.held * c.kept) ** 4)
    # A few multiprocessors cannot saturate memory.
    fed = np.minimum(1.0, w.even)
    chain = (
        w.issued
        + c.step * w.steps
        + c.near * w.near
        + c.far * (1 + missed) * w.far
        + c.barrier * w.barriers
        + c.group * w.groups
    )
    parts = (
        np.maximum(w.units / c.units, w.shared / c.shared) * busiest * w.cycle,
        w.waves * chain * w.cycle,
        w.matrix / c.matrix * busiest / w.even,
        w.memory * missed / c.memory / fed,
        w.cache / c.cache / fed,
        np.maximum(w.changed * c.changed, w.contended * c.contended),
    )
    power = c.sharpness
    return c.least + sum(part**power for part in parts) ** (1 / power)
