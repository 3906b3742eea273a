"""The happens-before order between programs, queried for many accesses at once.

`happens_before` explains the terms with an example. Every table is computed by the first query that
needs it, because most launches that synchronise share no bytes that could race.
"""

from bisect import bisect_right
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from ttools.interpreter.runtime.support.native_clocks import WIDTH
from ttools.sanitizer.races.direct_synchronisation import DirectOrder
from ttools.sanitizer.races.integer_columns import changes, count_less, distinct, order_by
from ttools.sanitizer.races.overlap import cluster_heads
from ttools.sanitizer.races.records import (
    ACQUIRE,
    BLIND,
    LOOKS,
    OVERWRITES,
    RELEASE,
    RMW,
    Bools,
    Ints,
    Records,
    column,
)
from ttools.sanitizer.races.releases import UNKNOWN, Releases
from ttools.sanitizer.races.vector_clocks import Chains, Published, Replay, are_chains, published

_NONE: Mapping[int, int] = {}
#: Maximum number of release sequences that `orders_all` tries. The sequences to which the most
#: programs release are tried.
_MOST_SEQUENCES = 4


class Clocks:
    """The happens-before order of a launch.

    A *moment* is the index of a relevant sync record in memory order. The moment of an access is
    the moment of the last relevant sync record of its program before the access, or -1 if there is
    none.

    Args:
        syncs: Sync records of the launch, in any order.
        earlier: Polls that returned an earlier value, as in `find_conflicts`.

    Attributes:
        syncs: The relevant sync records in memory order. A record is relevant if several programs
            access its location, and some access to it acquires and some access releases.
    """

    def __init__(self, syncs: Records, earlier: Mapping[int, int] = _NONE) -> None:
        self.syncs = _relevant(syncs)
        self._read_moments = _read_moments(self.syncs, earlier)

    @cached_property
    def _locations(self) -> Ints:
        return _since_overwritten(_locations(self.syncs), self.syncs, self._read_moments)

    @cached_property
    def _history(self) -> Published:
        return published(self._locations, self.syncs["flags"])

    @cached_property
    def _direct(self) -> DirectOrder:
        return DirectOrder(self.syncs, self._locations, self._history, self._read_moments)

    @cached_property
    def _releases(self) -> Releases:
        return Releases(self.syncs, self._history)

    @cached_property
    def _knowledge(self) -> Chains | Replay:
        program, flags = column(self.syncs, "program"), self.syncs["flags"]
        if not self._read_moments and are_chains(self._locations, program, flags):
            return Chains(program, flags, self._history)
        return Replay(self._locations, program, flags, self._history, self._read_moments)

    @cached_property
    def _replay(self) -> Replay:
        if isinstance(self._knowledge, Replay):
            return self._knowledge
        program, flags = column(self.syncs, "program"), self.syncs["flags"]
        return Replay(self._locations, program, flags, self._history, self._read_moments)

    @cached_property
    def _by_epoch(self) -> tuple[Ints, Ints, Ints]:
        """The moments, programs and epochs of the records, sorted by program and epoch."""
        order = order_by(self.syncs["program"], self.syncs["epoch"])
        return order, self.syncs["program"][order], self.syncs["epoch"][order]

    def moments(self, program: Ints, epoch: Ints) -> Ints:
        """Return the moment of accesses of the given programs in the given epochs."""
        if len(self.syncs) == 0:
            return np.full(len(program), UNKNOWN)
        order, owner, made = self._by_epoch
        span = int(max(made.max(), epoch.max(initial=0))) + 1
        before = count_less(owner * span + made, program * span + epoch) - 1
        exists = (before >= 0) & (owner[before] == program)
        return np.where(exists, order[before], UNKNOWN)

    def ordering_releases(self, program: Ints, epoch: Ints, barrier: Ints, moment: Ints) -> Ints:
        """Return the moment of a release that orders each access before a moment, or -1.

        The result is the last release of the access's program that is known at the moment, or an
        earlier known release that publishes the access.

        Args:
            program: Program of each access, which differs from the program of the moment.
            epoch: Epoch of each access.
            barrier: Barrier count that a release must exceed to publish the access.
            moment: Moment with which each access is compared.
        """
        if len(self.syncs) == 0:
            return np.full(len(program), UNKNOWN)
        result, is_open = self._direct.decide(program, epoch, barrier, moment)
        left = np.flatnonzero(is_open)
        if len(left):
            latest = self.latest_releases(program[left], moment[left])
            orders = (latest >= 0) & (self.syncs["epoch"][latest] >= epoch[left])
            result[left] = np.where(orders, latest, UNKNOWN)
        return result

    def latest_releases(self, program: Ints, moment: Ints) -> Ints:
        """Return, for each query, the moment of the last known release of a program, or -1."""
        order = order_by(program, moment)
        fresh = changes(program[order], moment[order])
        heads = order[fresh]
        latest = self._latest(program[heads], moment[heads])
        result = np.empty(len(program), np.int64)
        result[order] = latest[np.cumsum(fresh) - 1]
        return result

    def _latest(self, program: Ints, moment: Ints) -> Ints:
        latest = np.full(len(program), UNKNOWN)
        releasing = np.flatnonzero(self._releases.count_groups(program))
        if isinstance(self._knowledge, Replay) and not self._few_sequences(program[releasing]):
            latest[releasing] = self._knowledge.latest(program[releasing], moment[releasing])
            return latest
        group, sequence, owner = self._releases.groups(program)
        version = self._knowledge.newest(sequence, moment[owner])
        owned = np.flatnonzero(changes(owner))
        if len(owned):
            newest = self._releases.newest(group, version)
            latest[owner[owned]] = np.maximum.reduceat(newest, owned)
        return latest

    def _few_sequences(self, program: Ints) -> bool:
        """Return whether queries by sequence are cheaper than queries by releasing program."""
        programs = distinct(program)
        sequences = distinct(self._releases.groups(programs)[1])
        fewer = -(-len(programs) // WIDTH) - -(-len(sequences) // WIDTH)
        rows = int(self._releases.count_groups(program).sum())
        return fewer * len(self.syncs) > rows

    def publish_all(
        self, run: Ints, program: Ints, epoch: Ints, barrier: Ints, queried: Ints, moment: Ints
    ) -> Bools:
        """Return, for each moment, whether all accesses of a run by other programs are known then.

        Args:
            run: Run of each access, ascending; a program occurs at most once in a run.
            program: Program of each access.
            epoch: Epoch of each access.
            barrier: Barrier count that a release must exceed to publish the access.
            queried: Run with which each moment is compared.
            moment: Moment of each query.
        """
        needed = self._direct.publishing(program, epoch, barrier)
        # If no release publishes an access, no program can know the access, so the run of the
        # access is not ordered.
        lacking = np.bincount(run, needed < 0, int(queried.max(initial=-1)) + 1) > 0
        result = np.zeros(len(moment), np.bool_)
        open_ = np.flatnonzero(~lacking[queried])
        kept = np.flatnonzero(needed >= 0)
        result[open_] = self._replay.knows_all(
            run[kept], needed[kept], queried[open_], moment[open_]
        )
        return result

    def orders_all(
        self, run: Ints, program: Ints, epoch: Ints, barrier: Ints, queried: Ints, moment: Ints
    ) -> Bools:
        """Return, for each moment, whether a single version known then orders a whole run.

        False means that the order is undecided, because only a few sequences are tried.

        Args:
            run: Run of each access; ascending numbers from 0 without gaps.
            program: Program of each access.
            epoch: Epoch of each access.
            barrier: Barrier count that a release must exceed to publish the access.
            queried: Run with which each moment is compared.
            moment: Moment of each query.
        """
        heads = np.flatnonzero(changes(run))
        candidates = self._releases.shared_sequences(program[heads], _MOST_SEQUENCES)
        result = np.zeros(len(moment), np.bool_)
        for sequence in candidates.T:
            version = self._releases.publishing(program, sequence[run], epoch, barrier)
            needed = np.maximum.reduceat(version, heads)
            useful = np.minimum.reduceat(version, heads) > 0
            open_ = np.flatnonzero(useful[queried] & ~result)
            newest = self._knowledge.newest(sequence[queried[open_]], moment[open_])
            result[open_] = newest >= needed[queried[open_]]
        return result


def _relevant(syncs: Records) -> Records:
    """Return the relevant records in memory order.

    Records at locations that do not order accesses of different programs are left out.
    """
    if len(syncs) == 0:
        return syncs
    # np.take copies whole records and is several times faster than indexing.
    syncs = syncs.take(order_by(syncs["seq"]))
    location, program, flags = _locations(syncs), syncs["program"], syncs["flags"]
    count = int(location.max()) + 1
    # Assignment with repeated indices keeps one value, so `some` holds one of the programs at each
    # location.
    some = np.empty(count, np.int64)
    some[location] = program
    syncs["flags"] = flags = _with_blind(location, program, flags)
    useful: Bools = np.bincount(location, program != some[location], count) > 0
    for flag in (ACQUIRE, RELEASE):
        useful &= np.bincount(location, (flags & flag) != 0, count) > 0
    kept: Records = syncs.take(np.flatnonzero(useful[location]))
    return kept


def _with_blind(location: Ints, program: Ints, flags: Ints) -> Ints:
    """Return the flags in memory order, with ACQUIRE added to the BLIND accesses that acquire.

    A BLIND access acquires if its program has previously executed a LOOKS access at the same
    location.
    """
    blind = np.flatnonzero(flags & BLIND)
    if len(blind) == 0:
        return flags
    who = location * (int(program.max()) + 1) + program
    looks = np.flatnonzero(flags & LOOKS)
    looked, first = np.unique(who[looks], return_index=True)
    at = np.searchsorted(looked, who[blind])
    moments = np.append(looks[first], len(flags))
    has_looked = np.append(looked, -1)[at] == who[blind]
    flags = flags.copy()
    flags[blind[has_looked & (moments[at] < blind)]] |= ACQUIRE
    return flags


def _read_moments(syncs: Records, earlier: Mapping[int, int]) -> dict[int, int]:
    """Map the moment of each poll of an earlier value to the last moment not after that value.

    The poll acquires what was published at its location up to and including that moment.
    """
    if not earlier or not len(syncs):
        return {}
    order = syncs["seq"]
    moments = np.flatnonzero(np.isin(order, list(earlier)))
    bounds = np.array([earlier[seq] for seq in order[moments].tolist()], np.int64)
    last = np.searchsorted(order, bounds, "right") - 1
    return dict(zip(moments.tolist(), last.tolist(), strict=True))


def _locations(syncs: Records) -> Ints:
    """Return a location number for each record; overlapping words have the same location.

    Operations on parts of a word synchronise with operations on the whole word.
    """
    order = order_by(syncs["address"])
    start, end = syncs["address"][order], syncs["end"][order]
    number = np.zeros(len(syncs), np.int64)
    number[cluster_heads(start, end)] = 1
    location = np.empty(len(syncs), np.int64)
    location[order] = np.cumsum(number) - 1
    return location


def _since_overwritten(location: Ints, syncs: Records, read_moments: Mapping[int, int]) -> Ints:
    """Start a new location number at each store that overwrites a word without a release.

    Such a store publishes nothing that other programs have released at the word. However, it
    publishes again what its own program has released there: PTX's release pattern is a release
    followed by a strong write of the same thread (PTX ISA, memory consistency model).

    Args:
        location: Location of each access, in memory order.
        syncs: Sync records in memory order.
        read_moments: Moments of the values that polls returned, by moment of the poll. Such a poll
            gets the number that the location had at the moment of the value.
    """
    flags = syncs["flags"]
    if not np.any((flags & (OVERWRITES | RELEASE)) == OVERWRITES):
        return location
    renumbered: Ints = location.copy()
    following = int(location.max(initial=-1)) + 1
    numbers: dict[int, list[tuple[int, int]]] = {}
    releasing: dict[int, set[int]] = {}
    columns = location.tolist(), column(syncs, "program").tolist(), flags.tolist()
    for moment, (word, program, flag) in enumerate(zip(*columns, strict=True)):
        releasers = releasing.setdefault(word, set())
        if flag & RELEASE:
            if not flag & RMW:
                releasers.clear()
            releasers.add(program)
        elif flag & OVERWRITES and program not in releasers:
            releasers.clear()
            numbers.setdefault(word, []).append((moment, following))
            following += 1
        bound = moment if flag & RELEASE else read_moments.get(moment, moment)
        stores = numbers.get(word, ())
        before = bisect_right(stores, bound, key=lambda store: store[0])
        renumbered[moment] = stores[before - 1][1] if before else word
    return renumbered
