"""Runs a launch again to determine what its records do not show.

A repeated run answers three questions. Do programs that store to the same bytes store equal values?
Which lanes of one store overwrite each other? Does another order of programs show other races?
Afterwards, memory has the contents that the first run left.
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

#: Maximum total size of storages that are copied for a second run, in bytes.
_LARGEST_SNAPSHOT = 1 << 32
#: The same limit, for launches that may write to any memory known to the run.
_LARGEST_UNKNOWN = 1 << 28


def changing_stores(
    launch: KernelLaunch, regions: Sequence[Region], addresses: Addresses
) -> Records | None:
    """Return the stores of a launch that would change memory if it ran once more.

    The launch runs again without storing anything. If several programs stored to an element and
    none of their stores appears here, all of them stored the same value. If a kernel reads the
    elements that it overwrites, nearly every store appears, but the programs of such a kernel race
    anyway.

    Args:
        launch: A launch that has run once.
        regions: The memory that each parameter may access.
        addresses: All memory that the launch may write through pointers loaded from memory.

    Returns:
        Records of accesses, or None if the launch cannot be run again.
    """
    if launch.kernel.variants.synchronises:
        return None
    written = launch.written_storages
    if written is None:
        written = addresses.on_host()
        if sum(end - start for start, end in written) > _LARGEST_UNKNOWN:
            return None
    with undoing(launch, written):  # atomics change memory even in this run
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
    """Restore memory and a launch's monitor after the block, and suppress failures in it."""
    after, own = Snapshot(written), launch.monitor
    try:
        with suppress(TtoolsError):
            yield
    finally:
        launch.monitor = own
        after.restore()


def touches(records: Records, overlaps: Overlaps) -> bool:
    """Return whether any record lies in bytes to which several programs have stored.

    If not all of these bytes are recorded, the result is True for any record.
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
    """Run a launch again on one thread, so that its programs run one after the other.

    After all lanes of a store have stored, each lane reads back its element. If a program on
    another thread stored to the same elements in between, which is a different defect, this would
    look like a store of another lane.

    Args:
        launch: A launch that has run once.
        execute: Runs the launch with the given options.

    Returns:
        The observations of the new run, or None if it is not possible.
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
    """Run a launch again from its beginning with its programs in another order.

    Args:
        launch: A launch that has run once.
        before: The contents, before the first run, of the memory that the launch reads and writes.
        execute: Runs the launch in the other order.

    Returns:
        The observations of the new run; for a deadlock, those up to the point where programs
        waited. None if the run failed for another reason, because the order alone may have caused
        the failure.

    Raises:
        PhaseStopped: If the time limit of a launch was exceeded.
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
    """Save the memory that a launch may read and write; None if it is unknown or too large.

    Memory that a launch writes without reading does not influence its behaviour.

    Args:
        launch: A launch that has not run yet.
        read: The parameters through which the launch may read.
    """
    written = launch.written_storages
    if written is None or sum(end - start for start, end in written) > _LARGEST_SNAPSHOT:
        return None
    return Snapshot(read_and_written(launch, read, written))


def read_and_written(
    launch: KernelLaunch, read: Collection[int], written: Collection[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the storages that a launch both reads and writes, so that its stores may affect it.

    Args:
        launch: The launch whose arguments are examined.
        read: The parameters through which the launch may read.
        written: Start and end of the storages that it may write.
    """
    extents = [storage_extent(launch.values[index]) for index in read]
    return [
        (start, end)
        for start, end in written
        if any(extent is None or (start < extent[1] and extent[0] < end) for extent in extents)
    ]
