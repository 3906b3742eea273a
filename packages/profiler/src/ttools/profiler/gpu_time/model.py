"""A model of launch times on a GPU.

The model computes six times of a launch, each as if nothing else took time:

1. its instructions, at the rates of the busiest unit of a multiprocessor;
2. the latencies that a warp waits for one after the other, once per wave of programs;
3. its products on the matrix units;
4. its bytes, at the bandwidth of memory;
5. its bytes, at the bandwidth of the last-level cache;
6. its atomics, on the busiest slice of this cache or the busiest address.

These overlap: while some warps wait for memory, others compute. So the result is not their sum
`a + b + ...`, but the norm `(a**p + b**p + ...) ** (1 / p)` with `p = sharpness`, which lies
between the sum (p = 1) and the longest part (p = infinity). A constant time per launch is added.

Example: an addition of 2**24 float32 numbers on an H100, 1,024 per program of 4 warps. 16,384
programs are 124.1 for each of 132 multiprocessors, 16 of which a multiprocessor holds at once: 7.76
waves. A cycle takes 0.505 ns.

1. The busiest unit needs 96 cycles per program. At 94.4% of its peak, with 125 programs on the
   busiest multiprocessor: 96 / 0.944 * 125 * 0.505 ns = 6.4 us.
2. A warp issues 38 instructions, waits for 5 arithmetic results of 5 cycles each, and once for
   memory, 2 * 239 cycles. That is 541 cycles per wave, 2.1 us for all waves.
3. There are no matrix products.
4. 201.3 MB at 92.8% of 3.35 TB/s take 64.7 us. The cache holds a quarter of this data, so that
   nearly all of it (99.9%) has to come from memory.
5. The last-level cache moves the same bytes 2.97 times as fast: 20.2 us.
6. There are no atomics.

The norm of these times with p = 1.91 is 68.7 us. With 1.46 us for the launch, the projection is
70.2 us. The roofline's bound is 60.1 us.

The constants are the same for all kernels. They are fitted to launches of many kernels on an H100
and an H200 by `benchmarks/gpu_time_model.py`. For each kernel, this program also fits them to all
other kernels, and prints the error on the kernel that was left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ttools.profiler.gpu_time.work import Figure, Work


@dataclass(frozen=True, kw_only=True)
class Constants:
    """Constants of the model that vendors do not publish.

    Attributes:
        least: Seconds that every launch takes, whatever its work is.
        memory: Achievable share of the memory's peak bandwidth, 0 to 1.
        cache: Bandwidth of the last-level cache, as a multiple of the memory's.
        kept: Share of the last-level cache that keeps data of earlier launches, 0 to 1.
        units: Achievable share of the peak rates of arithmetic units, 0 to 1.
        shared: Achievable share of the peak rate of shared memory, 0 to 1.
        matrix: Achievable share of the peak rate of the matrix units, 0 to 1.
        step: Latency of arithmetic in cycles.
        near: Latency of shared memory and special functions in cycles.
        far: Latency of the last-level cache in cycles; memory takes twice as long.
        barrier: Latency of a barrier in cycles.
        group: Latency of a matrix instruction in cycles.
        changed: Seconds that a slice of the last-level cache takes to update a sector.
        contended: Seconds between two atomic updates of one address.
        sharpness: Exponent of the norm that combines the parts; the higher it is, the more of the
            other parts the longest part hides.
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
    """Return the seconds of a launch, or an array with the seconds of several launches."""
    c, w = constants, work
    busiest = np.ceil(w.even)
    missed = 1 / (1 + (w.cache_ratio * c.kept) ** 4)
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
