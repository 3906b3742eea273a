"""Runs a launch again to learn what its records do not tell.

Two questions: do programs that store to the same bytes store the same values there, and does
another order of the programs show other races. Memory is as the launch left it afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ttools.core.errors import TtoolsError
from ttools.interpreter.emit.module import Instruments
from ttools.interpreter.launch import LaunchOptions
from ttools.interpreter.monitor import Monitor
from ttools.interpreter.observation import ObservedLaunch
from ttools.interpreter.region import Region
from ttools.sanitizer.races import Overlaps
from ttools.sanitizer.snapshot import Bytes, Snapshot, memory

#: More programs than this are not run one by one; the first and the last ones stand for all.
_MOST_PROGRAMS = 1024
#: Storages larger than this, together, are not copied for a second run.
_LARGEST_SNAPSHOT = 1 << 32


def stores_same_values(
    launch: ObservedLaunch,
    regions: Sequence[Region],
    allocations: Sequence[tuple[int, int]],
    overlaps: Overlaps,
) -> bool:
    """Whether all programs that store to some bytes store the same values there.

    Each program runs alone, twice, over bytes that differ between the two runs: what is equal
    afterwards was written by it. The programs see what the launch has left in memory, so that the
    answer holds for kernels that do not read what they overwrite; others conflict anyway.
    """
    written = launch.written_storages
    if written is None or launch.variants.synchronises:
        return False
    after = Snapshot(written)
    try:
        values: Bytes | None = None
        known: Bytes | None = None
        for program in _chosen(overlaps.programs):
            first = _run_over(launch, regions, allocations, overlaps, program, 0x00)
            second = _run_over(launch, regions, allocations, overlaps, program, 0xFF)
            own = first == second
            if values is None or known is None:
                values, known = first, own
                continue
            if bool((own & known & (first != values)).any()):
                return False
            values = np.where(own, first, values)
            known |= own
        return True
    except TtoolsError:
        return False
    finally:
        after.restore()


def _chosen(programs: Sequence[int]) -> Sequence[int]:
    if len(programs) <= _MOST_PROGRAMS:
        return programs
    half = _MOST_PROGRAMS // 2
    return (*programs[:half], *programs[-half:])


def _run_over(
    launch: ObservedLaunch,
    regions: Sequence[Region],
    allocations: Sequence[tuple[int, int]],
    overlaps: Overlaps,
    program: int,
    fill: int,
) -> Bytes:
    """The bytes in question after one program ran over bytes of one value."""
    for start, end in overlaps.ranges:
        memory(start, end)[:] = fill
    own = launch.monitor
    launch.execute(
        Instruments(guards=True),
        regions=regions,
        allocations=allocations,
        options=LaunchOptions(threads=1, programs=str(program)),
    )
    launch.monitor = own
    return np.concatenate([memory(start, end) for start, end in overlaps.ranges])


def in_another_order(
    launch: ObservedLaunch, before: Snapshot, seed: int, execute: Callable[[LaunchOptions], None]
) -> Monitor | None:
    """Runs the launch again from its beginning with its programs in a random order.

    Args:
        launch: it has run once.
        before: what it writes, as it was before that.
        seed: of the order.
        execute: runs it with these options.

    Returns:
        What that run observed; None if it failed, which the order alone may cause.
    """
    written = launch.written_storages
    if written is None:
        return None
    after, own = Snapshot(written), launch.monitor
    before.restore()
    try:
        execute(replace(launch.run.launch_options, order="random", seed=seed))
        return launch.monitor
    except TtoolsError:
        return None
    finally:
        launch.monitor = own
        after.restore()


def snapshot_before(launch: ObservedLaunch) -> Snapshot | None:
    """What a launch may write, as it is now; None if unknown or too much."""
    written = launch.written_storages
    if written is None or sum(end - start for start, end in written) > _LARGEST_SNAPSHOT:
        return None
    return Snapshot(written)
