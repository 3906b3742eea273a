"""Happens-before at program level: what each program knew of the releases of the others, and when.

Answers the questions that are asked for many accesses at once. Nothing is computed before the first
question: most launches that synchronise share no bytes that could race.
"""

from bisect import bisect_right
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from ttools.interpreter.runtime.support.native_clocks import WIDTH
from ttools.sanitizer.races.direct import DirectOrder
from ttools.sanitizer.races.keys import changes, count_less, distinct, order_by
from ttools.sanitizer.races.knowledge import Chains, Published, Replay, are_chains, published
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

_NONE: Mapping[int, int] = {}
#: Sequences that may order all accesses of a run: those that the most programs release into.
_MOST_SEQUENCES = 4


class Clocks:
    """The clocks of a launch.

    A *moment* is the index of a relevant sync record in memory order, or -1: an access belongs to
    the moment of the last relevant sync record its program had made before it.

    Args:
        syncs: Sync records of the launch, in any order.
        earlier: See `find_conflicts`.

    Attributes:
        syncs: The relevant records in memory order: at locations through which some program can
            learn of another one.
    """

    def __init__(self, syncs: Records, earlier: Mapping[int, int] = _NONE) -> None:
        self.syncs = _relevant(syncs)
        self._seen = _seen(self.syncs, earlier)

    @cached_property
    def _locations(self) -> Ints:
        return _since_overwritten(_locations(self.syncs), self.syncs, self._seen)

    @cached_property
    def _history(self) -> Published:
        return published(self._locations, self.syncs["flags"])

    @cached_property
    def _direct(self) -> DirectOrder:
        return DirectOrder(self.syncs, self._locations, self._history, self._seen)

    @cached_property
    def _releases(self) -> Releases:
        return Releases(self.syncs, self._history)

    @cached_property
    def _knowledge(self) -> Chains | Replay:
        program, flags = column(self.syncs, "program"), self.syncs["flags"]
        if not self._seen and are_chains(self._locations, program, flags):
            return Chains(program, flags, self._history)
        return Replay(self._locations, program, flags, self._history, self._seen)

    @cached_property
    def _replay(self) -> Replay:
        if isinstance(self._knowledge, Replay):
            return self._knowledge
        program, flags = column(self.syncs, "program"), self.syncs["flags"]
        return Replay(self._locations, program, flags, self._history, self._seen)

    @cached_property
    def _by_epoch(self) -> tuple[Ints, Ints, Ints]:
        """The records by program and epoch: their moments, programs and epochs."""
        order = order_by(self.syncs["program"], self.syncs["epoch"])
        return order, self.syncs["program"][order], self.syncs["epoch"][order]

    def moments(self, program: Ints, epoch: Ints) -> Ints:
        """Return the moment of accesses of the given programs in the given epochs."""
        if len(self.syncs) == 0:
            return np.full(len(program), UNKNOWN)
        order, owner, made = self._by_epoch
        span = int(max(made.max(), epoch.max(initial=0))) + 1
        before = count_less(owner * span + made, program * span + epoch) - 1
        found = (before >= 0) & (owner[before] == program)
        return np.where(found, order[before], UNKNOWN)

    def ordering_releases(self, program: Ints, epoch: Ints, barrier: Ints, moment: Ints) -> Ints:
        """Return the moment of a release that orders each access before a moment, or -1.

        It is the last release of the program that is known at the moment, unless an earlier one
        that is known publishes the access, too.

        Args:
            program: Program of each access; another one than that of the moment.
            epoch: Epoch of each access.
            barrier: What the barrier count of a release must exceed to publish the access.
            moment: Any number of moments.
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
        """Return the moment of the last release of each program known at each moment, or -1."""
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
        known = self._knowledge.known(sequence, moment[owner])
        owned = np.flatnonzero(changes(owner))
        if len(owned):
            newest = self._releases.newest(group, known)
            latest[owner[owned]] = np.maximum.reduceat(newest, owned)
        return latest

    def _few_sequences(self, program: Ints) -> bool:
        """Whether it is less work to ask for sequences than for programs that release into them."""
        programs = distinct(program)
        sequences = distinct(self._releases.groups(programs)[1])
        fewer = -(-len(programs) // WIDTH) - -(-len(sequences) // WIDTH)
        rows = int(self._releases.count_groups(program).sum())
        return fewer * len(self.syncs) > rows

    def publish_all(
        self, run: Ints, program: Ints, epoch: Ints, barrier: Ints, asked: Ints, moment: Ints
    ) -> Bools:
        """Return for each moment whether every access of a run by another program is known then.

        Args:
            run: Run of each access, ascending; each program is once in a run.
            program: Program of each access.
            epoch: Epoch of each access.
            barrier: What the barrier count of a release must exceed to publish the access.
            asked: Run that each moment is asked about.
            moment: Any number of moments.
        """
        needed = self._direct.publishing(program, epoch, barrier)
        # A release that does not exist is known to nobody: such a run orders nothing.
        lacking = np.bincount(run, needed < 0, int(asked.max(initial=-1)) + 1) > 0
        result = np.zeros(len(moment), np.bool_)
        open_ = np.flatnonzero(~lacking[asked])
        kept = np.flatnonzero(needed >= 0)
        result[open_] = self._replay.knows_all(run[kept], needed[kept], asked[open_], moment[open_])
        return result

    def orders_all(
        self, run: Ints, program: Ints, epoch: Ints, barrier: Ints, asked: Ints, moment: Ints
    ) -> Bools:
        """Return for each moment whether one version known then orders a whole run of accesses.

        False decides nothing: only a few sequences are looked at.

        Args:
            run: Run of each access, ascending numbers from 0, each of which occurs.
            program: Program of each access.
            epoch: Epoch of each access.
            barrier: What the barrier count of a release must exceed to publish the access.
            asked: Run that each moment is asked about.
            moment: Any number of moments.
        """
        heads = np.flatnonzero(changes(run))
        candidates = self._releases.shared_sequences(program[heads], _MOST_SEQUENCES)
        result = np.zeros(len(moment), np.bool_)
        for sequence in candidates.T:
            version = self._releases.publishing(program, sequence[run], epoch, barrier)
            needed = np.maximum.reduceat(version, heads)
            useful = np.minimum.reduceat(version, heads) > 0
            open_ = np.flatnonzero(useful[asked] & ~result)
            known = self._knowledge.known(sequence[asked[open_]], moment[open_])
            result[open_] = known >= needed[asked[open_]]
        return result


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


def _since_overwritten(location: Ints, syncs: Records, seen: Mapping[int, int]) -> Ints:
    """Number a word anew from where a store that releases nothing replaces what it held.

    Such a store publishes nothing of what others have released there. What its own program has
    released there it publishes again: PTX's release pattern is a release and a later strong write
    of one thread (PTX ISA, memory consistency model).

    Args:
        location: Of each access, in memory order.
        syncs: The accesses.
        seen: See `Clocks`; an access that sees what was there before belongs to the word of then.
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
        known = releasing.setdefault(word, set())
        if flag & RELEASE:
            if not flag & RMW:
                known.clear()
            known.add(program)
        elif flag & OVERWRITES and program not in known:
            known.clear()
            numbers.setdefault(word, []).append((moment, following))
            following += 1
        bound = moment if flag & RELEASE else seen.get(moment, moment)
        stores = numbers.get(word, ())
        before = bisect_right(stores, bound, key=lambda store: store[0])
        renumbered[moment] = stores[before - 1][1] if before else word
    return renumbered
