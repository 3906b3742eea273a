"""Fast decisions about happens-before that need only one release and one acquire.

For an access of program P and a moment of program Q, most queries have one of two answers:

- Q has acquired the word of a release of P after that release: the access is ordered.
- Q has acquired nothing since the first release of P after the access: it is not ordered.

The remaining queries, such as chains of flags through a third program, need the clocks of
`vector_clocks`.
"""

from collections.abc import Collection

import numpy as np

from ttools.sanitizer.races.integer_columns import changes, order_by
from ttools.sanitizer.races.records import ACQUIRE, Bools, Ints, Records, column
from ttools.sanitizer.races.releases import UNKNOWN, Ascending
from ttools.sanitizer.races.vector_clocks import Published


class DirectOrder:
    """Releases and acquires of a launch, indexed by program and location.

    Args:
        syncs: Sync records in memory order.
        locations: Location of each record, as a number from 0.
        history: Sequences and versions of the locations.
        early: Moments of polls that returned an earlier value and therefore do not acquire the
            current value.
    """

    def __init__(
        self, syncs: Records, locations: Ints, history: Published, early: Collection[int]
    ) -> None:
        count = len(syncs)
        self._history, self._locations = history, locations
        self._program = column(syncs, "program")
        self._epoch, self._barrier = column(syncs, "epoch"), column(syncs, "barrier")
        acquires: Bools = (syncs["flags"] & ACQUIRE) != 0
        self._last_acquire = _last_of_program(self._program, acquires)
        self._acquires_current = acquires.copy()
        self._acquires_current[list(early)] = False
        # A place is a pair of a program and a location for which the program has sync records.
        self._words = int(locations.max(initial=-1)) + 1
        order = order_by(self._program, locations, np.arange(count))
        fresh = changes(self._program[order], locations[order])
        heads = order[fresh]
        self._places = self._program[heads] * self._words + locations[heads]
        place = np.empty(count, np.int64)
        place[order] = np.cumsum(fresh) - 1
        self._span = count + 1
        self._acquirers = _sorted_keys(place, np.flatnonzero(self._acquires_current), self._span)
        self._releasers = _sorted_keys(place, history.releases, self._span)
        by_program = history.releases[order_by(self._program[history.releases], history.releases)]
        owner = self._program[by_program]
        self._by_program = by_program
        heads = np.flatnonzero(changes(owner))
        self._owners, self._stop = owner[heads], np.append(heads[1:], len(owner))
        group = np.repeat(np.arange(len(heads)), np.diff(np.append(heads, len(owner))))
        self._by_epoch = Ascending(group, self._epoch[by_program])
        self._by_barrier = Ascending(group, self._barrier[by_program])

    def decide(self, program: Ints, epoch: Ints, barrier: Ints, moment: Ints) -> tuple[Ints, Bools]:
        """Find, for each access, a release that orders it before a moment of another program.

        Args:
            program: Program of each access, which differs from the program of the moment.
            epoch: Epoch of each access.
            barrier: Barrier count that a release must exceed to publish the access.
            moment: Moment with which each access is compared, or -1.

        Returns:
            The moment of a known release that publishes the access, or -1, and a mask of the
            queries that are still open. Where a query is not open, -1 means that no known release
            orders the access.
        """
        ordering, publishing = self._first_releases(program, epoch, barrier)
        at = np.maximum(moment, 0)
        last = np.where(moment >= 0, self._last_acquire[at], UNKNOWN)
        possible = np.flatnonzero((ordering >= 0) & (ordering < last))
        result = np.full(len(program), UNKNOWN)
        is_open = np.zeros(len(program), np.bool_)
        if len(possible) == 0:
            return result, is_open
        program, epoch, barrier, moment, publishing, last = (
            values[possible] for values in (program, epoch, barrier, moment, publishing, last)
        )
        acquired = self._is_acquired(publishing, moment)
        release = np.where(acquired, publishing, UNKNOWN)
        other = self._last_acquired_release(program, last)
        publishes = (other >= 0) & (self._epoch[other] >= epoch) & (self._barrier[other] > barrier)
        release = np.where((release < 0) & publishes, other, release)
        result[possible] = release
        is_open[possible] = release < 0
        return result, is_open

    def publishing(self, program: Ints, epoch: Ints, barrier: Ints) -> Ints:
        """Return the moment of the first release that publishes each access, or -1."""
        return self._first_releases(program, epoch, barrier)[1]

    def _first_releases(self, program: Ints, epoch: Ints, barrier: Ints) -> tuple[Ints, Ints]:
        """Return the first release after each access, and the first that publishes it, or -1.

        The two differ if the access needs a barrier that is missing before the first release.
        """
        none = np.full(len(program), UNKNOWN)
        if len(self._owners) == 0:
            return none, none
        group = np.searchsorted(self._owners, program)
        inside = np.minimum(group, len(self._owners) - 1)
        mine = self._owners[inside] == program
        ordering = self._by_epoch.count(inside, epoch, "left")
        publishing = np.maximum(ordering, self._by_barrier.count(inside, barrier, "right"))
        last = len(self._by_program) - 1
        ordering, publishing = (
            np.where(
                mine & (row < self._stop[inside]),
                self._by_program[np.minimum(row, last)],
                UNKNOWN,
            )
            for row in (ordering, publishing)
        )
        return ordering, publishing

    def _is_acquired(self, release: Ints, moment: Ints) -> Bools:
        """Return whether the program of each moment has acquired the given release by that moment.

        Only acquires at the location of the release count.
        """
        location = self._locations[release]
        place = self._place(self._program[moment], location)
        # If the first acquire after the release reads another sequence, all later acquires do, too.
        at = np.searchsorted(self._acquirers, place * self._span + release, "right")
        key = np.append(self._acquirers, -1)[at]
        first = key - place * self._span
        good = (release >= 0) & (place >= 0) & (first > release) & (first <= moment)
        sequence = self._history.previous[np.where(good, first, 0)]
        return np.asarray(good & (sequence == self._history.sequence[release]))

    def _last_acquired_release(self, program: Ints, acquire: Ints) -> Ints:
        """Return the last release of a program in the sequence that an access acquired, or -1."""
        place = self._place(program, self._locations[acquire])
        at = np.searchsorted(self._releasers, place * self._span + acquire, "left") - 1
        release = np.append(self._releasers, -1)[at] - place * self._span
        good = (place >= 0) & (release >= 0) & self._acquires_current[acquire]
        release = np.where(good, release, 0)
        good &= self._history.sequence[release] == self._history.previous[acquire]
        return np.where(good, release, UNKNOWN)

    def _place(self, program: Ints, location: Ints) -> Ints:
        """Return the number of the place of a program at a location, or -1."""
        key = program * self._words + location
        at = np.searchsorted(self._places, key)
        return np.where(np.append(self._places, -1)[at] == key, at, UNKNOWN)


def _last_of_program(program: Ints, marked: Bools) -> Ints:
    """Return, for each access, the last marked access of its program up to this access, or -1."""
    order = order_by(program, np.arange(len(program)))
    position = np.where(marked[order], np.arange(len(order)), -1)
    fresh: Bools = changes(program[order])
    heads = np.flatnonzero(fresh)
    head = np.repeat(heads, np.diff(np.append(heads, len(order))))
    last = np.maximum.accumulate(position)
    result = np.empty(len(order), np.int64)
    result[order] = np.where(last >= head, order[np.maximum(last, 0)], UNKNOWN)
    return result


def _sorted_keys(place: Ints, moments: Ints, span: int) -> Ints:
    return np.sort(place[moments] * span + moments)
