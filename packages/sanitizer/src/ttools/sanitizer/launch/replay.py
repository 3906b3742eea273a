"""Runs a launch again to learn what its records do not show.

Three questions: do programs that store to the same bytes store the same values there, which lanes
of one store overwrite each other, and does another order of the programs show other races. Memory
is as the launch left it afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np

from ttools.core.errors import KernelError, TtoolsError
from ttools.core.process.phases import PhaseStopped, current_work
from ttools.core.spec import storage_extent
from ttools.interpreter.abi.module import Instruments
from ttools.interpreter.abi.region import Region
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.interpreter.runtime.monitor import Monitor
from ttools.interpreter.runtime.snapshot import Snapshot
from ttools.sanitizer.memory.addresses import Addresses
from ttools.sanitizer.races import Overlaps, Records

#: Storages larger than this, together, are not copied for a second run.
_LARGEST_SNAPSHOT = 1 << 32
#: The same where a launch may write to any memory that the run knows of.
_LARGEST_UNKNOWN = 1 << 28


def changing_stores(
    launch: KernelLaunch, regions: Sequence[Region], addresses: Addresses
) -> Records | None:
    """The stores of a launch that would change what it has left in memory.

    The launch runs again without storing anything. Where several programs have stored to an
    element and none of them appears here, all have stored the same. A kernel that reads what it
    overwrites appears with nearly everything, but such programs race anyway.

    Args:
        launch: it has run once.
        addresses: all memory that it may write if it writes through pointers from memory.

    Returns:
        Records of accesses, None if the launch cannot be run again.
    """
    if launch.kernel.variants.synchronises:
        return None
    written = launch.written_storages
    if written is None:
        written = addresses.on_host()
        if sum(end - start for start, end in written) > _LARGEST_UNKNOWN:
            return None
    with undoing(launch, written):  # what atomics do
        launch.execute(
            Instruments(guards=True, compares=True),
            regions=regions,
            allocations=addresses.allocations,
        )
        assert launch.monitor is not None
        return launch.monitor.records()[0]
    return None


@contextmanager
def undoing(launch: KernelLaunch, written: Iterable[tuple[int, int]]) -> Iterator[None]:
    """Afterwards memory and the launch's monitor are as before; failures end it silently."""
    after, own = Snapshot(written), launch.monitor
    try:
        with suppress(TtoolsError):
            yield
    finally:
        launch.monitor = own
        after.restore()


def touches(records: Records, overlaps: Overlaps) -> bool:
    """Whether any of the records lies in bytes that several programs have stored to.

    Where not all those bytes are known, every record counts.
    """
    if not len(records) or overlaps.cut:
        return bool(len(records))
    ranges = np.array(overlaps.ranges, np.int64)
    index = np.searchsorted(ranges[:, 1], records["start"], side="right")
    inside = index < len(ranges)
    return bool((ranges[index[inside], 0] < records["end"][inside]).any())


def on_one_thread(
    launch: KernelLaunch, execute: Callable[[LaunchOptions], object]
) -> Monitor | None:
    """Runs the launch again with its programs one after the other.

    Lanes look at what they have stored once all have. A program on another thread that stores to
    the same elements meanwhile, which is another defect, looks like a lane that did.

    Args:
        launch: it has run once.
        execute: runs it with these options.

    Returns:
        What that run observed; None if there can be none.
    """
    written = launch.written_storages
    if written is None or launch.kernel.variants.synchronises:
        return None
    with undoing(launch, written):
        execute(replace(launch.run.launch_options, threads=1))
        return launch.monitor
    return None


def in_another_order(
    launch: KernelLaunch,
    before: Snapshot,
    execute: Callable[[], object],
) -> Monitor | None:
    """Runs the launch again from its beginning with its programs in another order.

    Args:
        launch: it has run once.
        before: what it reads and writes, as it was before that.
        execute: runs it in that order.

    Returns:
        What that run observed; None if it failed, which the order alone may cause. Of a deadlock,
        what the programs did until they waited.

    Raises:
        PhaseStopped: it took longer than a launch may.
    """
    written = launch.written_storages
    if written is None:
        return None
    with undoing(launch, written):
        before.restore()
        try:
            execute()
        except KernelError as error:
            work = current_work()
            if error.kind == "timeout" and work is not None:
                raise PhaseStopped(work.phase.name, "timeout", work.phase.seconds) from error
            if error.kind != "deadlock":
                raise
        return launch.monitor
    return None


def snapshot_before(launch: KernelLaunch, read: Collection[int]) -> Snapshot | None:
    """What a launch may read and write, as it is now; None if unknown or too much.

    What it writes without reading decides nothing of what it does.

    Args:
        launch: it has not run yet.
        read: the parameters through which it may read.
    """
    written = launch.written_storages
    if written is None or sum(end - start for start, end in written) > _LARGEST_SNAPSHOT:
        return None
    return Snapshot(read_and_written(launch, read, written))


def read_and_written(
    launch: KernelLaunch, read: Collection[int], written: Collection[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The storages that a launch may write and read: what it does may depend on its own stores.

    Args:
        launch: its arguments are looked at.
        read: the parameters through which it may read.
        written: the storages that it may write.
    """
    extents = [storage_extent(launch.values[index]) for index in read]
    return [
        (start, end)
        for start, end in written
        if any(each is None or (start < each[1] and each[0] < end) for each in extents)
    ]
