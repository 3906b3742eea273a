"""Entry point of the race analysis: runs the analyses that apply and summarises their results.

`find_conflicts` runs the analyses that apply to the records of a launch:

- between programs, in a launch without synchronisation: `unordered_rows`;
- between programs, in a launch with synchronisation: `happens_before.ordered_rows`;
- between the threads of one program: `thread_races.thread_rows` and `iterations.iteration_rows`.

Each returns a table of conflicting pairs of records (`Rows`). The tables are joined and summarised
as one `Conflict` for each kind and pair of sites.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ttools.core.process.phases import tick
from ttools.interpreter.runtime.access_log import more_lanes
from ttools.sanitizer.races.access_classes import MAY_CONFLICT, STORE, clashes, classes_of
from ttools.sanitizer.races.clocks import Clocks
from ttools.sanitizer.races.conflict_table import INTRA_PROGRAM, OVERLAPPING_STORE, RACE, Rows, join
from ttools.sanitizer.races.happens_before import ordered_rows
from ttools.sanitizer.races.integer_columns import changes, distinct, order_by
from ttools.sanitizer.races.iterations import iteration_rows
from ttools.sanitizer.races.overlap import cluster_heads, meetings, overlapping
from ttools.sanitizer.races.records import (
    ACCESS,
    KINDS,
    SYNC,
    AccessRef,
    Bools,
    Conflict,
    Ints,
    Overlaps,
    Record,
    Records,
    Site,
    column,
)
from ttools.sanitizer.races.thread_races import thread_rows, thread_suspects


def suspects(records: Records, classes: Ints) -> Bools:
    """Return a mask of records in clusters that have several programs and conflicting classes.

    Args:
        records: Access records of at least one byte, sorted by start.
        classes: Class of each site.
    """
    heads = cluster_heads(records["start"], records["end"])
    length = np.diff(np.append(heads, len(records)))
    program = records["program"]
    several = np.minimum.reduceat(program, heads) != np.maximum.reduceat(program, heads)
    kinds = np.bitwise_or.reduceat(classes[records["site"]], heads)
    return np.repeat(several & MAY_CONFLICT[kinds], length)


def unordered_rows(records: Records, classes: Ints) -> Rows:
    """Return the conflicts between programs if no program is ordered before another.

    Args:
        records: Access records, sorted by start.
        classes: Class of each site.
    """
    start, end, site, program = (
        column(records, name) for name in ("start", "end", "site", "program")
    )
    pairs = meetings(start, end, site, program, clashes(classes))
    both = classes[site[pairs.first]] & classes[site[pairs.second]]
    kind = np.where(both == STORE, OVERLAPPING_STORE, RACE)
    nothing = np.full(len(kind), -1)
    return Rows(kind, pairs.start, pairs.end, pairs.first, pairs.second, nothing)


MAX_RANGES = 4096
"""Largest number of byte ranges in an `Overlaps`."""


def find_conflicts(
    accesses: Records,
    sites: Sequence[Site],
    syncs: Records | None = None,
    earlier: Mapping[int, int] | None = None,
    *,
    warps: int = 4,
    exchanges: bool = True,
) -> list[Conflict]:
    """Return the races of one launch, one `Conflict` for each kind and unordered pair of sites.

    Args:
        accesses: `ACCESS` records in any order.
        sites: Sites of the launch in program order; the records index them.
        syncs: `SYNC` records in any order, or None if the launch does not synchronise.
        earlier: Polls that returned an earlier value of their word (`poll_values`). The mapping is
            from the `seq` of such a poll to the `seq` of the access that wrote the value.
        warps: Number of warps of a program. With more than one warp, operations that exchange
            values between threads (reductions, scans, products) act as barriers.
        exchanges: True if the kernel has such operations.

    Returns:
        The conflicts, sorted by kind, then sites.

    Raises:
        ValueError: A record names a site that does not exist.
    """
    if len(accesses) and not 0 <= accesses["site"].min() <= accesses["site"].max() < len(sites):
        raise ValueError(f"an access record names a site outside the {len(sites)} given")
    if len(accesses) < 2:
        return []
    records = _overlapping_records(accesses)
    if len(records) == 0:
        return []
    classes = classes_of(sites)
    clocks = Clocks(np.empty(0, SYNC) if syncs is None else syncs, earlier or {})
    parts: list[Rows] = []
    tick(0, len(records), "records")
    chosen = np.flatnonzero(suspects(records, classes))
    if len(chosen):
        shared = records if len(chosen) == len(records) else records.take(chosen)
        if len(clocks.syncs):
            rows = ordered_rows(shared, sites, classes, clocks)
        else:
            rows = unordered_rows(shared, classes)
        parts.append(_reindexed(rows, chosen))
    chosen = np.flatnonzero(thread_suspects(records, sites, classes))
    if len(chosen):
        parts.append(_reindexed(thread_rows(records.take(chosen), sites, classes), chosen))
    timed = len(clocks.syncs) > 0
    synchronises = syncs is not None and len(syncs) > 0
    if not (synchronises and exchanges and warps > 1):
        rows = iteration_rows(
            records,
            sites,
            classes,
            waits_at_exchanges=warps > 1,
            synchronises=synchronises,
        )
        parts.append(rows)
    return [_conflict(rows, records, sites, timed) for rows in _by_pair(join(parts), records)]


def _overlapping_records(accesses: Records) -> Records:
    """Return the records that share a byte with another record, sorted by start."""
    start, end = column(accesses, "start"), column(accesses, "end")
    if np.all(start[1:] >= end[:-1]):
        return np.empty(0, ACCESS)
    order = order_by(start)
    chosen = overlapping(start[order], end[order])
    # np.take copies whole records and is several times faster than indexing.
    return np.asarray(accesses.take(order[chosen]), ACCESS)


def _reindexed(rows: Rows, index: Ints) -> Rows:
    return rows._replace(first=index[rows.first], second=index[rows.second])


def _by_pair(rows: Rows, records: Records) -> Iterator[Rows]:
    """Yield the rows of each kind and unordered pair of sites, sorted by address."""
    one, two = records["site"][rows.first], records["site"][rows.second]
    low, high = np.minimum(one, two), np.maximum(one, two)
    order = order_by(rows.kind, low, high, rows.start)
    heads = np.flatnonzero(changes(rows.kind[order], low[order], high[order]))
    for part in np.split(order, heads[1:]) if len(heads) else ():
        tick()
        yield rows.take(part)


def _conflict(rows: Rows, records: Records, sites: Sequence[Site], timed: bool) -> Conflict:
    chosen = _lowest(rows, records)
    address, release = int(rows.start[chosen]), int(rows.release[chosen])
    indices = [int(rows.first[chosen]), int(rows.second[chosen])]
    if release < 0 and (rows.kind[0] == INTRA_PROGRAM or not timed):
        same_thread = rows.kind[0] == INTRA_PROGRAM
        indices = [
            _earliest(records, index, address, sites[records["site"][index]], same_thread)
            for index in indices
        ]
    first, second = (_reference(records, index, address, sites) for index in indices)
    size = sites[second.site].size
    begin, end = _union(rows.start, rows.end)
    pair = np.array([first.site, second.site])
    kind = KINDS[rows.kind[0]]
    overlaps = None
    if rows.kind[0] == OVERLAPPING_STORE:
        ranges = zip(begin[:MAX_RANGES].tolist(), end[:MAX_RANGES].tolist(), strict=True)
        overlaps = Overlaps(tuple(ranges), cut=len(begin) > MAX_RANGES)
    return Conflict(
        kind=kind,
        first=first,
        second=second,
        start=address,
        end=min(_end_of_element(records[index], address, sites) for index in indices),
        count=_elements(begin, end, size, int(records["start"][indices[1]]) % size),
        lanes=_lanes(records, pair, sites, begin, end),
        programs=len(_programs(records, pair, begin, end)),
        missing_barrier_site=release if release >= 0 else None,
        overlaps=overlaps,
        starts=begin,
    )


def _lowest(rows: Rows, records: Records) -> int:
    """Return the row with the lowest pair of programs; among equal pairs, the lowest address."""
    one, two = records["program"][rows.first], records["program"][rows.second]
    left = np.arange(len(rows.kind))
    for criterion in (np.minimum(one, two), np.maximum(one, two), rows.start, one):
        values = criterion[left]
        left = left[values == values.min()]
    return int(left[0])


def _earliest(records: Records, index: int, address: int, site: Site, same_thread: bool) -> int:
    """Return the first record, by epoch and lane, that may replace a record in the example.

    A record may replace it if it is of the same program and site and contains the address; if
    `same_thread` is True, it must also be of the same barrier count and thread.
    """
    mine = records[index]
    alike: Bools = (records["site"] == mine["site"]) & (records["program"] == mine["program"])
    alike &= (records["start"] <= address) & (records["end"] > address)
    if same_thread:
        alike &= records["barrier"] == mine["barrier"]
    left = np.flatnonzero(alike)
    near = records.take(left)
    lane = _lane(near, address, site)
    if same_thread:
        thread = lane == _lane(mine, address, site)
        left, near, lane = left[thread], near[thread], lane[thread]
    return int(left[order_by(near["epoch"], lane)[0]])


def _reference(records: Records, index: int, address: int, sites: Sequence[Site]) -> AccessRef:
    record = records[index]
    site = int(record["site"])
    lane = int(_lane(record, address, sites[site]))
    return AccessRef(site, int(record["program"]), lane, address, int(record["epoch"]))


def _lane(records: Records | Record, address: int, site: Site) -> Ints:
    """Return, for each record of a site, the lane that accesses an address."""
    lane: Ints = (records["lane"] + (address - records["start"]) // site.size) % site.numel
    return lane


def _end_of_element(record: Record, address: int, sites: Sequence[Site]) -> int:
    size = sites[int(record["site"])].size
    start = int(record["start"])
    return start + ((address - start) // size + 1) * size


def _union(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return disjoint ranges that cover the same bytes; adjacent ranges are merged."""
    reach = np.maximum.accumulate(end)
    fresh = np.ones(len(start), np.bool_)
    np.greater(start[1:], reach[:-1], out=fresh[1:])
    heads = np.flatnonzero(fresh)
    return start[heads], reach[np.append(heads[1:], len(start)) - 1]


def _elements(start: Ints, end: Ints, size: int, phase: int) -> int:
    """Count the elements that disjoint ranges touch, if elements start at `phase` modulo `size`."""
    first, last = (start - phase) // size, (end - 1 - phase) // size
    reach = np.append(first[:1] - 1, last[:-1])
    return int((last - np.maximum(first - 1, reach)).sum())


def _lanes(records: Records, pair: Ints, sites: Sequence[Site], start: Ints, end: Ints) -> int:
    """Count the element accesses at two sites that touch the given disjoint ranges.

    If a lane accesses an element several times, each access is counted.
    """
    lanes = 0
    for site in distinct(pair).tolist():
        mine = records.take(np.flatnonzero(records["site"] == site))
        begin, stop, size = column(mine, "start"), column(mine, "end"), sites[site].size
        # A record of one element may represent several lanes that access the element.
        lanes_each = 1 + more_lanes(mine)
        # Elements whose addresses are equal modulo their size lie on the same grid. For each grid,
        # the ranges are widened to whole elements of the grid, and the elements are counted with
        # prefix sums.
        phases = begin % size
        for phase in distinct(phases).tolist():
            chosen = phases == phase
            first, last = (start - phase) // size, -(-(end - phase) // size)
            first, last = _union(first, last)
            before = np.append(0, np.cumsum(last - first))
            for bound, sign in ((stop, 1), (begin, -1)):
                at = (bound[chosen] - phase) // size
                which = np.searchsorted(first, at, "right")
                inside = np.minimum(at, last[which - 1]) - first[which - 1]
                counts = before[which - 1] + inside
                elements = np.where(which > 0, counts, 0)
                lanes += sign * int((elements * lanes_each[chosen]).sum())
    return lanes


def _programs(records: Records, pair: Ints, start: Ints, end: Ints) -> Ints:
    """Return the programs that touch one of the disjoint ranges at one of two sites."""
    at: Bools = (records["site"] == pair[0]) | (records["site"] == pair[1])
    at &= records["start"] < end[-1]
    chosen = np.flatnonzero(at)
    begin, stop = records["start"][chosen], records["end"][chosen]
    touches = np.searchsorted(start, stop) > np.searchsorted(end, begin, "right")
    return distinct(records["program"][chosen[touches]])
