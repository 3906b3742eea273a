"""Happens-before at program level: what each program knew of the releases of the others, and when.

A location that is released to counts versions; a read-modify-write adds a version that continues
the earlier ones, a plain release begins a new *sequence*. A clock maps sequences to the newest
version known, which implies all that went into it, so that programs that take turns at one lock
need clocks of one entry. Knows nothing of the accesses that are ordered.
"""

import numpy as np

from ttools.sanitizer.races.keys import changes, order_by, ranges
from ttools.sanitizer.races.overlap import cluster_heads
from ttools.sanitizer.races.persistent import Map, depth_of, get, join, put
from ttools.sanitizer.races.records import ACQUIRE, RELEASE, RMW, Bools, Ints, Records
from ttools.sanitizer.races.releases import UNKNOWN, Releases


class Clocks:
    """The clocks of a launch.

    A *moment* is the index of a relevant sync record in memory order, or -1: an access belongs to
    the moment of the last relevant sync record its program had made before it.

    Attributes:
        syncs: The relevant records in memory order: at locations through which some program can
            learn of another one.
    """

    def __init__(self, syncs: Records) -> None:
        self.syncs = _relevant(syncs)
        locations = _locations(self.syncs)
        restarts = int(np.count_nonzero((self.syncs["flags"] & (RELEASE | RMW)) == RELEASE))
        count = int(locations.max(initial=-1)) + 1
        self._depth = depth_of(count + restarts)
        self._clocks: list[Map] = []
        self._releases = self._run(locations, count)
        self._order = order_by(self.syncs["program"], self.syncs["epoch"])

    def _run(self, locations: Ints, sequences: int) -> Releases:
        """Plays the sync records in memory order."""
        depth = self._depth
        known: dict[int, Map] = {}
        published: dict[int, tuple[int, int, Map]] = {}
        releases: list[tuple[int, int, int]] = []
        columns = (self.syncs[name].tolist() for name in ("program", "flags"))
        rows = zip(locations.tolist(), *columns, strict=True)
        for moment, (location, program, flags) in enumerate(rows):
            sequence, version, clock = published.get(location, (location, 0, None))
            mine = known.get(program)
            if flags & ACQUIRE:
                mine = join(mine, clock, depth)
            if flags & RELEASE:
                if flags & RMW:
                    clock = join(clock, mine, depth)
                else:
                    sequence, version, clock = sequences, 0, mine
                    sequences += 1
                version += 1
                clock = put(clock, sequence, version, depth)
                published[location] = sequence, version, clock
                releases.append((moment, sequence, version))
                if flags & ACQUIRE:
                    mine = clock
            known[program] = mine
            self._clocks.append(mine)
        return Releases(self.syncs, *np.array(releases, np.int64).reshape(-1, 3).T)

    def moments(self, program: Ints, epoch: Ints) -> Ints:
        """The moment of accesses of the given programs in the given epochs."""
        syncs = self.syncs[self._order]
        if len(syncs) == 0:
            return np.full(len(program), UNKNOWN)
        span = int(max(syncs["epoch"].max(), epoch.max(initial=0))) + 1
        keys = syncs["program"] * span + syncs["epoch"]
        before = np.searchsorted(keys, program * span + epoch) - 1
        found = (before >= 0) & (syncs["program"][before] == program)
        return np.where(found, self._order[before], UNKNOWN)

    def latest_releases(self, program: Ints, moment: Ints) -> Ints:
        """The moment of the last release of each program that is known at each moment, or -1."""
        order = order_by(program, moment)
        fresh = changes(program[order], moment[order])
        heads = order[fresh]
        group, sequence, owner = self._releases.groups(program[heads])
        known = self._known(sequence, moment[heads[owner]])
        latest = np.full(len(heads), UNKNOWN)
        np.maximum.at(latest, owner, self._releases.newest(group, known))
        result = np.empty(len(program), np.int64)
        result[order] = latest[np.cumsum(fresh) - 1]
        return result

    def orders_all(self, program: Ints, epoch: Ints, barrier: Ints, moment: Ints) -> Bools:
        """For each moment whether a single version known then orders all the accesses before it.

        Args:
            program: Of each access.
            epoch: Of each access.
            barrier: What the barrier count of a release must exceed to publish the access.
            moment: Any number of them.
        """
        sequence, version = self._releases.requirement(program, epoch, barrier)
        every, which = ranges(np.zeros(len(moment), np.int64), np.full(len(moment), len(version)))
        met = self._known(sequence[every], moment[which]) >= version[every]
        return np.bincount(which, met, len(moment)) > 0

    def _known(self, sequence: Ints, moment: Ints) -> Ints:
        """The newest version of each sequence that is known at each moment; 0 if none is."""
        order = order_by(sequence, moment)
        fresh = changes(sequence[order], moment[order])
        heads = order[fresh]
        pairs = zip(sequence[heads].tolist(), moment[heads].tolist(), strict=True)
        counts = (get(self._clocks[m], s, self._depth) if m >= 0 else 0 for s, m in pairs)
        result = np.empty(len(sequence), np.int64)
        result[order] = np.fromiter(counts, np.int64, len(heads))[np.cumsum(fresh) - 1]
        return result


def _relevant(syncs: Records) -> Records:
    """The records in memory order, without locations that order nothing between programs."""
    if len(syncs) == 0:
        return syncs
    syncs = syncs[order_by(syncs["seq"])]
    location, program, flags = _locations(syncs), syncs["program"], syncs["flags"]
    count = int(location.max()) + 1
    first = np.full(count, np.iinfo(np.int64).max)
    last = np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(first, location, program)
    np.maximum.at(last, location, program)
    useful: Bools = first != last
    for flag in (ACQUIRE, RELEASE):
        useful &= np.bincount(location, (flags & flag) != 0, count) > 0
    kept: Records = syncs[useful[location]]
    return kept


def _locations(syncs: Records) -> Ints:
    """A number for each set of overlapping words: operations on parts of a word order as well."""
    order = order_by(syncs["address"])
    start, end = syncs["address"][order], syncs["end"][order]
    number = np.zeros(len(syncs), np.int64)
    number[cluster_heads(start, end)] = 1
    location = np.empty(len(syncs), np.int64)
    location[order] = np.cumsum(number) - 1
    return location
