"""What each program knew of the releases of the others after each of its synchronising accesses.

A location that is released to counts versions; a read-modify-write adds a version that continues
the earlier ones, a plain release begins a new *sequence*. A clock maps sequences to the newest
version known, which implies all that went into it, so that programs that alternate at one lock
need clocks of one entry. A *moment* is the index of an access in memory order.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence

import numpy as np

from ttools.core.process.phases import tick
from ttools.sanitizer.races.keys import changes, order_by
from ttools.sanitizer.races.persistent import Map, depth_of, get, join, put
from ttools.sanitizer.races.records import ACQUIRE, RELEASE, RMW, Bools, Ints

_NONE: Mapping[int, int] = {}
#: Accesses between two looks at the clock.
_TICK_EVERY = 1024


class Trees:
    """Knowledge of any launch.

    Args:
        locations: of each access; numbers from 0.
        programs: of each access.
        flags: of each access.
        seen: Of accesses that acquire what was published before: up to which moment that was.

    Attributes:
        releases: The moment of each release, the sequence that it was published into, and as
            which version of it, from 1.
    """

    def __init__(
        self, locations: Ints, programs: Ints, flags: Ints, seen: Mapping[int, int] = _NONE
    ) -> None:
        self._seen = seen
        restarts = int(np.count_nonzero((flags & (RELEASE | RMW)) == RELEASE))
        sequences = int(locations.max(initial=-1)) + 1
        self._depth = depth_of(sequences + restarts)
        self._clocks: list[Map] = []
        self.releases: tuple[Ints, Ints, Ints] = self._run(locations, programs, flags, sequences)

    def _run(
        self, locations: Ints, programs: Ints, flags_of: Ints, sequences: int
    ) -> tuple[Ints, Ints, Ints]:
        """Plays the accesses in memory order."""
        depth = self._depth
        known: dict[int, Map] = {}
        published: dict[int, tuple[int, int, Map]] = {}
        before: dict[int, list[tuple[int, Map]]] = {}
        releases: list[tuple[int, int, int]] = []
        columns = (column.tolist() for column in (locations, programs, flags_of))
        for moment, (location, program, flags) in enumerate(zip(*columns, strict=True)):
            if not moment % _TICK_EVERY:
                tick(moment, len(locations), "synchronising accesses")
            sequence, version, clock = published.get(location, (location, 0, None))
            mine = known.get(program)
            early = moment in self._seen
            if flags & ACQUIRE:
                known_then = before.get(location, ()) if early else ()
                news = _as_of(known_then, self._seen[moment]) if early else clock
                mine = join(mine, news, depth)
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
                if self._seen:
                    before.setdefault(location, []).append((moment, clock))
                if flags & ACQUIRE and not early:
                    mine = clock
            known[program] = mine
            self._clocks.append(mine)
        moments, into, versions = np.array(releases, np.int64).reshape(-1, 3).T
        return moments, into, versions

    def known(self, sequence: Ints, moment: Ints) -> Ints:
        """The newest version of each sequence that is known at each moment; 0 if none is.

        Args:
            sequence: As in `releases`.
            moment: Of an access of the program that knows; -1 before its first one.
        """
        order = order_by(sequence, moment)
        fresh = changes(sequence[order], moment[order])
        heads = order[fresh]
        pairs = zip(sequence[heads].tolist(), moment[heads].tolist(), strict=True)
        counts = (get(self._clocks[m], s, self._depth) if m >= 0 else 0 for s, m in pairs)
        result = np.empty(len(sequence), np.int64)
        result[order] = np.fromiter(counts, np.int64, len(heads))[np.cumsum(fresh) - 1]
        return result


def _as_of(published: Sequence[tuple[int, Map]], moment: int) -> Map:
    """What had been published up to a moment."""
    index = bisect_right(published, moment, key=lambda each: each[0])
    return published[index - 1][1] if index else None


class Chains:
    """Knowledge of launches for which `are_chains` holds, where clocks have one entry: the same
    as `Trees` makes of them, without playing access by access. Arguments and attributes are its.
    """

    def __init__(self, locations: Ints, programs: Ints, flags: Ints) -> None:
        self._locations = locations
        order = order_by(locations, np.arange(len(locations)))
        is_release = (flags[order] & RELEASE) != 0
        version = _within(changes(locations[order]), np.cumsum(is_release))
        versions = np.empty(len(order), np.int64)
        versions[order] = version
        moments = np.flatnonzero(flags & RELEASE)
        self.releases: tuple[Ints, Ints, Ints] = moments, locations[moments], versions[moments]
        # Who acquires knows the version there is; versions only grow.
        order = order_by(programs, np.arange(len(programs)))
        group = np.cumsum(changes(programs[order]))
        learned = np.where(flags[order] & ACQUIRE, versions[order], 0)
        span = int(versions.max(initial=0)) + 1
        self._known = np.empty(len(order), np.int64)
        self._known[order] = np.maximum.accumulate(group * span + learned) - group * span

    def known(self, sequence: Ints, moment: Ints) -> Ints:
        """See `Trees.known`."""
        if len(self._locations) == 0:
            return np.zeros(len(sequence), np.int64)
        mine = (moment >= 0) & (self._locations[moment] == sequence)
        return np.where(mine, self._known[moment], 0)


def are_chains(locations: Ints, programs: Ints, flags: Ints) -> bool:
    """Whether each program synchronises through one location, and no release begins anew there."""
    if np.any((flags & (RELEASE | RMW)) == RELEASE):
        return False
    order = order_by(programs, locations)
    fresh: Bools = changes(programs[order])
    return bool(np.array_equal(fresh, fresh | changes(locations[order])))


def _within(fresh: Bools, running: Ints) -> Ints:
    """A running total that begins anew in each group."""
    heads = np.flatnonzero(fresh)
    before = np.append(0, running)[heads]
    return np.asarray(running - np.repeat(before, np.diff(np.append(heads, len(running)))))
