"""How long a launch takes on a GPU: its work, at the shares of peaks that measured launches reach.

What takes longest hides most of the rest. The constants are the same for all kernels, fitted to
launches of many of them on an H100 and an H200 (`benchmarks/gpu_time_model.py`, which also fits
them without each kernel in turn and tells the errors).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ttools.profiler.gpu_time.work import Figure, Work


@dataclass(frozen=True, kw_only=True)
class Constants:
    """What no maker publishes.

    Attributes:
        least: seconds of any launch.
        memory: share of the memory's bandwidth.
        cache: bandwidth of the last level of cache, by the memory's.
        kept: share of that cache which holds data from before.
        units: share of the units' peaks.
        shared: share of shared memory's.
        matrix: share of the matrix units'.
        step: cycles until a result of arithmetic is there.
        near: until one of shared memory or a special function is.
        far: until one of the last level of cache is; of memory it is twice as long.
        group: cycles of a matrix instruction.
        changed: seconds in which a slice of the last level of cache changes a sector.
        contended: seconds between atomics on one address.
        sharpness: how nearly the longest part hides the others.
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
    """Seconds of a launch, or of each of several."""
    c, w = constants, work
    busiest = np.ceil(w.even)
    missed = 1 / (1 + (w.held * c.kept) ** 4)
    # A part of the multiprocessors does not keep memory busy.
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
