"""Measures by sampling how the time of a launch is distributed over the lines of its kernel.

The launch is repeated on one thread, with only some of its programs if it is long, or several times
if it is short. Meanwhile, the address of the running code is sampled at regular intervals. The
memory that the launch writes is restored afterwards.
"""

from __future__ import annotations

import time
from collections import Counter
from math import prod

from ttools.core.errors import UnsupportedError
from ttools.core.location import SourceLocation
from ttools.interpreter.abi.module import Instruments
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.interpreter.runtime.launch import Kernel
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.interpreter.runtime.snapshot import Snapshot
from ttools.interpreter.runtime.support.sampling import Samples, can_sample

#: Instruments for code with line tables; it behaves like code without line tables.
LINES = Instruments(lines=True)
#: Seconds between samples. An interrupt takes about two microseconds.
_INTERVAL = 50e-6
_ENOUGH = 400
#: The largest number of bytes that are copied in order to be restored.
_MOST_BYTES = 1 << 30


def line_samples(launch: KernelLaunch, *, seconds: float) -> Counter[SourceLocation | None]:
    """Return the number of samples per location; the location of code without a line is None.

    Args:
        launch: A launch that has been executed with `LINES`, so that its cost was measured.
        seconds: Approximate limit of the duration; if the launch takes longer, only some of its
            programs run.

    Raises:
        UnsupportedError: The launch cannot be repeated, or this system does not support sampling of
            threads.
    """
    kernel = launch.native(LINES)
    refusal = _refusal(launch, kernel)
    if refusal:
        raise UnsupportedError(refusal)
    before = Snapshot(launch.written_storages or ())
    samples = Samples()
    round, start = 0, time.perf_counter()
    while len(samples.addresses) < _ENOUGH and (not round or time.perf_counter() - start < seconds):
        options = LaunchOptions(threads=1, programs=_chosen(launch, kernel, seconds), seed=round)
        try:
            with samples.taking(_INTERVAL):
                launch.execute(LINES, options=options)
        except OSError as error:
            raise UnsupportedError(f"times of lines on this machine ({error.strerror})") from error
        finally:
            before.restore()
        round += 1
    return _places(kernel, samples)


def _refusal(launch: KernelLaunch, kernel: Kernel) -> str:
    """Return the reason why a launch cannot be repeated; empty if it can."""
    if not can_sample():
        return "times of lines on systems other than Linux on x86-64 or Arm"
    if kernel.prints:
        return "times of lines in a kernel that prints"
    if kernel.emitted.spins:
        return "times of lines in a kernel whose programs wait for each other"
    written = launch.written_storages
    if written is None:
        return "times of lines in a kernel that stores through pointers from memory"
    if sum(end - begin for begin, end in written) > _MOST_BYTES:
        return "times of lines in a launch that may write more than a gigabyte"
    return ""


def _chosen(launch: KernelLaunch, kernel: Kernel, seconds: float) -> str | None:
    """Return a selection of programs that run in about the given time; None for all programs."""
    count = prod(map(int, launch.grid))
    most = count if not kernel.cost else max(1, int(seconds / kernel.cost))
    return f"random:{most}" if most < count else None


def _places(kernel: Kernel, samples: Samples) -> Counter[SourceLocation | None]:
    counts: Counter[SourceLocation | None] = Counter()
    lines, locations = kernel.lines, kernel.emitted.locations
    if lines is None:
        return counts
    for address in samples.addresses.tolist():
        offset = address - kernel.native.address
        if lines.starts[0] <= offset < lines.starts[-1]:
            line = lines.line_at(offset)
            counts[locations[line - 1] if line else None] += 1
    return counts
