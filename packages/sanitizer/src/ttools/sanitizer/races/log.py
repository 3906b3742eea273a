"""Collects the accesses of a launch as it runs, in memory bounded by what is distinct in them."""

from collections.abc import Sequence

import numpy as np

from ttools.sanitizer.races.conflicts import find_conflicts
from ttools.sanitizer.races.keys import changes, order_by
from ttools.sanitizer.races.records import ACCESS, Conflict, Records, Site


class RaceLog:
    """The access records of one launch.

    Args:
        sites: The access sites of the kernel in program order.
        limit: Records (of 48 bytes) held before redundant ones are merged.
    """

    def __init__(self, sites: Sequence[Site], *, limit: int = 4_000_000) -> None:
        self.sites = tuple(sites)
        self._limit = limit
        self._parts: list[Records] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, accesses: Records) -> None:
        """Takes a copy of some `ACCESS` records."""
        self._parts.append(np.array(accesses, ACCESS))
        self._count += len(accesses)
        if self._count > self._limit:
            self._replace(compact(self._records(), self.sites))
            # Records that stay distinct are not looked through again and again.
            self._limit = max(self._limit, 2 * self._count)

    def conflicts(self, syncs: Records | None = None) -> list[Conflict]:
        """The races among what was added; see `find_conflicts`."""
        self._replace(self._records())
        return find_conflicts(self._parts[0], self.sites, syncs)

    def _records(self) -> Records:
        return np.concatenate([np.empty(0, ACCESS), *self._parts])

    def _replace(self, records: Records) -> None:
        self._parts = [records]
        self._count = len(records)


def compact(records: Records, sites: Sequence[Site]) -> Records:
    """Fewer records that say the same.

    Runs of one program, site, epoch and barrier merge where they overlap or touch and give every
    byte the same lane.
    """
    if len(records) == 0:
        return records
    size = np.array([site.size for site in sites], np.int64)[records["site"]]
    origin = records["start"] - records["lane"] * size
    order = order_by(
        records["program"],
        records["site"],
        records["epoch"],
        records["barrier"],
        origin,
        records["start"],
    )
    records, origin = records.take(order), origin[order]
    start, end = records["start"], records["end"]
    group = changes(
        records["program"], records["site"], records["epoch"], records["barrier"], origin
    )
    # A running maximum within each group: lift every group above the one before it.
    lift = (np.cumsum(group) - 1) * (int(end.max()) - int(start.min()) + 1)
    reach = np.maximum.accumulate(end - int(start.min()) + lift)
    fresh = group.copy()
    fresh[1:] |= (start[1:] - int(start.min()) + lift[1:]) > reach[:-1]
    heads = np.flatnonzero(fresh)
    merged = records.take(heads)
    merged["end"] = np.maximum.reduceat(end, heads)
    merged["seq"] = np.minimum.reduceat(records["seq"], heads)
    return merged
