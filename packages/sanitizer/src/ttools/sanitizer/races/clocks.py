"""Happens-before at program level: what each program knew of the releases of the others, and when.

Owns the questions that are asked of it for many accesses at once. How knowledge spreads is
`knowledge`'s; knows nothing of the accesses that are ordered.
"""

from collections.abc import Mapping

import numpy as np

from ttools.sanitizer.races.keys import changes, count_less, order_by, ranges
from ttools.sanitizer.races.knowledge import Chains, Trees, are_chains
from ttools.sanitizer.races.overlap import cluster_heads
from ttools.sanitizer.races.records import ACQUIRE, BLIND, LOOKS, RELEASE, Bools, Ints, Records
from ttools.sanitizer.races.releases import UNKNOWN, Releases

_NONE: Mapping[int, int] = {}


class Clocks:
    """The clocks of a launch.

    A *moment* is the index of a relevant sync record in memory order, or -1: an access belongs to
    the moment of the last relevant sync record its program had made before it.

    Args:
        syncs: Of the launch, in any order.
        earlier: See `find_conflicts`.

    Attributes:
        syncs: The relevant records in memory order: at locations through which some program can
            learn of another one.
    """

    def __init__(self, syncs: Records, earlier: Mapping[int, int] = _NONE) -> None:
        self.syncs = _relevant(syncs)
        seen = _seen(self.syncs, earlier)
        locations = _locations(self.syncs)
        program, flags = self.syncs["program"].astype(np.int64), self.syncs["flags"]
        self._knowledge: Chains | Trees
        if not seen and are_chains(locations, program, flags):
            self._knowledge = Chains(locations, program, flags)
        else:
            self._knowledge = Trees(locations, program, flags, seen)
        self._releases = Releases(self.syncs, *self._knowledge.releases)
        self._order = order_by(self.syncs["program"], self.syncs["epoch"])

    def moments(self, program: Ints, epoch: Ints) -> Ints:
        """The moment of accesses of the given programs in the given epochs."""
        if len(self.syncs) == 0:
            return np.full(len(program), UNKNOWN)
        owner, made = self.syncs["program"][self._order], self.syncs["epoch"][self._order]
        span = int(max(made.max(), epoch.max(initial=0))) + 1
        before = count_less(owner * span + made, program * span + epoch) - 1
        found = (before >= 0) & (owner[before] == program)
        return np.where(found, self._order[before], UNKNOWN)

    def latest_releases(self, program: Ints, moment: Ints) -> Ints:
        """The moment of the last release of each program that is known at each moment, or -1."""
        order = order_by(program, moment)
        fresh = changes(program[order], moment[order])
        heads = order[fresh]
        group, sequence, owner = self._releases.groups(program[heads])
        known = self._knowledge.known(sequence, moment[heads[owner]])
        latest = np.full(len(heads), UNKNOWN)
        owned = np.flatnonzero(changes(owner))
        if len(owned):
            newest = self._releases.newest(group, known)
            latest[owner[owned]] = np.maximum.reduceat(newest, owned)
        result = np.empty(len(program), np.int64)
        result[order] = latest[np.cumsum(fresh) - 1]
        return result

    def orders_all(self, program: Ints, epoch: Ints, barrier: Ints, moment: Ints) -> Bools:
        """For each moment whether a single version known then orders all the accesses before it.

        Args:
            program: of each access.
            epoch: of each access.
            barrier: What the barrier count of a release must exceed to publish the access.
            moment: Any number of them.
        """
        sequence, version = self._releases.requirement(program, epoch, barrier)
        every, which = ranges(np.zeros(len(moment), np.int64), np.full(len(moment), len(version)))
        met = self._knowledge.known(sequence[every], moment[which]) >= version[every]
        return np.bincount(which, met, len(moment)) > 0


def _relevant(syncs: Records) -> Records:
    """The records in memory order, without locations that order nothing between programs."""
    if len(syncs) == 0:
        return syncs
    # np.take copies whole records, several times faster than indexing does.
    syncs = syncs.take(order_by(syncs["seq"]))
    location, program, flags = _locations(syncs), syncs["program"], syncs["flags"]
    count = int(location.max()) + 1
    # The last value assigned to a location stays: one of its programs.
    some = np.empty(count, np.int64)
    some[location] = program
    syncs["flags"] = flags = _with_blind(location, program, flags)
    useful: Bools = np.bincount(location, program != some[location], count) > 0
    for flag in (ACQUIRE, RELEASE):
        useful &= np.bincount(location, (flags & flag) != 0, count) > 0
    kept: Records = syncs.take(np.flatnonzero(useful[location]))
    return kept


def _with_blind(location: Ints, program: Ints, flags: Ints) -> Ints:
    """The flags in memory order, accesses acquiring whose program has looked at the word before."""
    blind = np.flatnonzero(flags & BLIND)
    if len(blind) == 0:
        return flags
    who = location * (int(program.max()) + 1) + program
    looks = np.flatnonzero(flags & LOOKS)
    looked, first = np.unique(who[looks], return_index=True)
    at = np.searchsorted(looked, who[blind])
    moments = np.append(looks[first], len(flags))
    known = np.append(looked, -1)[at] == who[blind]
    flags = flags.copy()
    flags[blind[known & (moments[at] < blind)]] |= ACQUIRE
    return flags


def _seen(syncs: Records, earlier: Mapping[int, int]) -> dict[int, int]:
    """The moments that acquire what was published before, and the last moment before that."""
    if not earlier or not len(syncs):
        return {}
    order = syncs["seq"]
    moments = np.flatnonzero(np.isin(order, list(earlier)))
    bounds = np.array([earlier[seq] for seq in order[moments].tolist()], np.int64)
    last = np.searchsorted(order, bounds, "right") - 1
    return dict(zip(moments.tolist(), last.tolist(), strict=True))


def _locations(syncs: Records) -> Ints:
    """A number for each set of overlapping words: operations on parts of a word order as well."""
    order = order_by(syncs["address"])
    start, end = syncs["address"][order], syncs["end"][order]
    number = np.zeros(len(syncs), np.int64)
    number[cluster_heads(start, end)] = 1
    location = np.empty(len(syncs), np.int64)
    location[order] = np.cumsum(number) - 1
    return location
