"""Happens-before at program level: what each program knew of the releases of the others, and when.

A location that is released to counts versions; a read-modify-write adds a version that continues
the earlier ones, a plain release begins a new *sequence*. A clock maps sequences to the newest
version known, which implies all that went into it, so that programs that take turns at one lock
need clocks of one entry. Knows nothing of the accesses that are ordered.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from ttools.sanitizer.races.keys import changes, order_by
from ttools.sanitizer.races.overlap import cluster_heads
from ttools.sanitizer.races.persistent import Map, depth_of, get, join, put
from ttools.sanitizer.races.records import ACQUIRE, RELEASE, RMW, Bools, Ints, Records

UNKNOWN = -1


class _Releases:
    """The releases of one program into one sequence, oldest first."""

    def __init__(self) -> None:
        self.versions: list[int] = []
        self.moments: list[int] = []
        self.epochs: list[int] = []
        self.barriers: list[int] = []


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
        self._releases: dict[int, dict[int, _Releases]] = defaultdict(dict)
        self._run(locations, count)
        self._order = order_by(self.syncs["program"], self.syncs["epoch"])

    def _run(self, locations: Ints, sequences: int) -> None:
        """Plays the sync records in memory order."""
        depth = self._depth
        known: dict[int, Map] = {}
        published: dict[int, tuple[int, int, Map]] = {}
        columns = (self.syncs[name].tolist() for name in ("program", "flags", "epoch", "barrier"))
        rows = zip(locations.tolist(), *columns, strict=True)
        for moment, (location, program, flags, epoch, barrier) in enumerate(rows):
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
                releases = self._releases[program].setdefault(sequence, _Releases())
                releases.versions.append(version)
                releases.moments.append(moment)
                releases.epochs.append(epoch)
                releases.barriers.append(barrier)
                if flags & ACQUIRE:
                    mine = clock
            known[program] = mine
            self._clocks.append(mine)

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
        pairs = zip(program[heads].tolist(), moment[heads].tolist(), strict=True)
        answers = np.fromiter((self._latest(*pair) for pair in pairs), np.int64, len(heads))
        result = np.empty(len(program), np.int64)
        result[order] = answers[np.cumsum(fresh) - 1]
        return result

    def _latest(self, program: int, moment: int) -> int:
        latest = UNKNOWN
        clock = self._clocks[moment] if moment >= 0 else None
        if clock is None or program not in self._releases:
            return latest
        for sequence, releases in self._releases[program].items():
            known = bisect_right(releases.versions, get(clock, sequence, self._depth))
            if known:
                latest = max(latest, releases.moments[known - 1])
        return latest

    def requirement(self, accesses: Iterable[tuple[int, int, int]]) -> dict[int, int]:
        """Versions of which any one, when known, orders all the accesses before the knower.

        Args:
            accesses: Program, epoch, and the barrier count that a release must exceed.
        """
        needed: dict[int, int] | None = None
        for program, epoch, barrier in accesses:
            through = {}
            for sequence, releases in self._releases.get(program, {}).items():
                at = max(
                    bisect_left(releases.epochs, epoch), bisect_right(releases.barriers, barrier)
                )
                if at < len(releases.versions):
                    through[sequence] = releases.versions[at]
            if needed is None:
                needed = through
            else:
                common = needed.keys() & through.keys()
                needed = {key: max(needed[key], through[key]) for key in common}
            if not needed:
                break
        return needed or {}

    def meets(self, moment: int, requirement: dict[int, int]) -> bool:
        """Whether one of the versions is known at the moment."""
        clock = self._clocks[moment] if moment >= 0 else None
        return clock is not None and any(
            get(clock, sequence, self._depth) >= version
            for sequence, version in requirement.items()
        )


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
