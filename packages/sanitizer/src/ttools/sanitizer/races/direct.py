"""Which accesses are surely ordered, or surely not, by one release and one acquire alone.

Most questions about order are answered by looking at one lock or flag: the program has acquired it
after the other one's release, or has acquired nothing at all since. Only what is left needs to be
played access by access (`knowledge`).
"""

from collections.abc import Collection

import numpy as np

from ttools.sanitizer.races.keys import changes, order_by
from ttools.sanitizer.races.knowledge import Published
from ttools.sanitizer.races.records import ACQUIRE, Bools, Ints, Records, column
from ttools.sanitizer.races.releases import UNKNOWN, Ascending


class DirectOrder:
    """Releases and acquires of a launch, by program and location.

    Args:
        syncs: Sync records in memory order.
        locations: Location of each; numbers from 0.
        history: The versions of the locations.
        early: Moments of accesses that acquire what was published before, not what they find.
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
        self._finds = acquires.copy()
        self._finds[list(early)] = False
        # A number for each program at each location, and all its accesses there in their order.
        self._words = int(locations.max(initial=-1)) + 1
        order = order_by(self._program, locations, np.arange(count))
        fresh = changes(self._program[order], locations[order])
        heads = order[fresh]
        self._places = self._program[heads] * self._words + locations[heads]
        place = np.empty(count, np.int64)
        place[order] = np.cumsum(fresh) - 1
        self._span = count + 1
        self._finders = _sorted_keys(place, np.flatnonzero(self._finds), self._span)
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
        """Find for each access a release that orders it before a moment of another program.

        Args:
            program: Program of each access; another one than that of the moment.
            epoch: Epoch of each access.
            barrier: What the barrier count of a release must exceed to publish the access.
            moment: Moments, or -1.

        Returns:
            The moment of a release that publishes the access and is known, or -1; and whether the
            question is still open. If not, -1 says that no release that is known orders it.
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
            each[possible] for each in (program, epoch, barrier, moment, publishing, last)
        )
        acquired = self._is_acquired(publishing, moment)
        found = np.where(acquired, publishing, UNKNOWN)
        other = self._last_release_found(program, last)
        publishes = (other >= 0) & (self._epoch[other] >= epoch) & (self._barrier[other] > barrier)
        found = np.where((found < 0) & publishes, other, found)
        result[possible] = found
        is_open[possible] = found < 0
        return result, is_open

    def publishing(self, program: Ints, epoch: Ints, barrier: Ints) -> Ints:
        """Return the moment of the first release that publishes each access, or -1."""
        return self._first_releases(program, epoch, barrier)[1]

    def _first_releases(self, program: Ints, epoch: Ints, barrier: Ints) -> tuple[Ints, Ints]:
        """The first release that may order each access, and the first that publishes it; or -1."""
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
                mine & (each < self._stop[inside]),
                self._by_program[np.minimum(each, last)],
                UNKNOWN,
            )
            for each in (ordering, publishing)
        )
        return ordering, publishing

    def _is_acquired(self, release: Ints, moment: Ints) -> Bools:
        """Whether the program of each moment has acquired a release at its location by then."""
        location = self._locations[release]
        place = self._place(self._program[moment], location)
        # If the first access that acquires there finds another sequence, so do all later ones.
        at = np.searchsorted(self._finders, place * self._span + release, "right")
        key = np.append(self._finders, -1)[at]
        first = key - place * self._span
        good = (release >= 0) & (place >= 0) & (first > release) & (first <= moment)
        found = self._history.found[np.where(good, first, 0)]
        return np.asarray(good & (found == self._history.sequence[release]))

    def _last_release_found(self, program: Ints, acquire: Ints) -> Ints:
        """The last release of a program in what an access has acquired at its location, or -1."""
        place = self._place(program, self._locations[acquire])
        at = np.searchsorted(self._releasers, place * self._span + acquire, "left") - 1
        release = np.append(self._releasers, -1)[at] - place * self._span
        good = (place >= 0) & (release >= 0) & self._finds[acquire]
        release = np.where(good, release, 0)
        good &= self._history.sequence[release] == self._history.found[acquire]
        return np.where(good, release, UNKNOWN)

    def _place(self, program: Ints, location: Ints) -> Ints:
        """The number of a program at a location, or -1."""
        key = program * self._words + location
        at = np.searchsorted(self._places, key)
        return np.where(np.append(self._places, -1)[at] == key, at, UNKNOWN)


def _last_of_program(program: Ints, marked: Bools) -> Ints:
    """The last marked access of the same program up to each one, or -1."""
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
