"""The bytes that a launch has stored to, from its log or by running it again.

Memory that holds the pattern of unwritten memory after a launch is a candidate only. What the
launch has stored is evidence that does not depend on values. A launch that logs its accesses has
told it already; any other is run again if that can be done: if nothing that it reads was changed
by it, and its programs do not wait for each other or take what others have left.
"""

from __future__ import annotations

import numpy as np

from ttools.interpreter.abi.module import Instruments
from ttools.interpreter.abi.region import Region
from ttools.interpreter.runtime.monitor import Monitor
from ttools.sanitizer.launch.checked import CheckedLaunch
from ttools.sanitizer.launch.replay import read_and_written, undoing
from ttools.sanitizer.memory.unwritten_storage import UnwrittenStorage
from ttools.sanitizer.passes import undefined
from ttools.sanitizer.races import Records

#: Storages that a launch writes are not copied for a second run if they are larger, together.
_LARGEST_SAVED = 1 << 32
#: So little is copied in no time.
_LITTLE = 1 << 20
#: Of larger storages only the part is searched that a launch was handed.
_LARGEST_SEARCHED = 1 << 24
#: For larger storages no launch is run again.
_LARGEST_RUN_FOR = 1 << 22


class StoredBytes:
    """What a launch has stored to; nothing is looked up, nor run again, before it is asked for.

    Args:
        checked: The launch; it has run.
    """

    def __init__(self, checked: CheckedLaunch) -> None:
        self._checked = checked
        self._again: Monitor | None = None
        self._is_again = False

    @property
    def is_logged(self) -> bool:
        """Whether the launch has logged all its stores."""
        monitor = self._checked.monitor
        logs = self._checked.instruments.footprints
        return monitor is not None and logs and not monitor.log_is_full

    def take(self, storage: UnwrittenStorage, region: Region) -> None:
        """Take over what the launch has stored to a storage, where some of it may be unwritten.

        Args:
            storage: The storage.
            region: The part of it that the launch was handed.
        """
        start, nbytes = storage.start, storage.nbytes
        first, end = region.view if nbytes > _LARGEST_SEARCHED else region.storage
        if not (storage.remembers_writes and storage.suspects(first - start, end - start)):
            return
        monitor = self._checked.monitor if self.is_logged else self._again
        can_run = monitor is None and not self._is_again and nbytes <= _LARGEST_RUN_FOR
        if can_run and storage.asks_for_a_run(self._is_cheap):
            self._is_again = True
            monitor = self._again = _logged_again(self._checked)
        if monitor is not None:
            stored = stores_to(monitor, start, start + nbytes, ("store", "atomic"))
            storage.store(
                (stored["start"].astype(np.int64) - start, stored["end"].astype(np.int64) - start)
            )

    @property
    def _is_cheap(self) -> bool:
        """Whether the launch writes little memory."""
        written = self._checked.launch.written_storages
        return written is not None and sum(b - a for a, b in written) <= _LITTLE


def _logged_again(checked: CheckedLaunch) -> Monitor | None:
    """Run a launch again with a log of its stores; memory is as it was afterwards.

    Returns:
        None if the launch cannot be made again, or has stored more than a log takes.
    """
    launch = checked.launch
    written = launch.written_storages
    if (
        written is None
        or launch.kernel.variants.synchronises
        or checked.hung
        or checked.kernel.calls
    ):
        return None
    if sum(end - start for start, end in written) > _LARGEST_SAVED:
        return None
    if read_and_written(launch, checked.kernel.fact(undefined.reads), written):
        return None  # what it reads now is not what it has read
    with undoing(launch, written):
        launch.execute(
            Instruments(guards=True, footprints=True),
            regions=checked.regions,
            allocations=checked.allocations,
        )
        monitor = launch.monitor
        return None if monitor is None or monitor.log_is_full else monitor
    return None


def stores_to(
    monitor: Monitor, start: int, end: int, kinds: tuple[str, ...] = ("store",)
) -> Records:
    """Return the accesses of some kinds, stores by default, of a launch to a storage."""
    records, _ = monitor.records()
    writes = np.array([site.kind in kinds for site in monitor.sites], np.bool_)
    inside = records[(records["start"] < end) & (records["end"] > start)]
    stored: Records = inside[writes[inside["site"]]]
    return stored
