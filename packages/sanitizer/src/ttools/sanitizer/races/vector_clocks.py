"""Vector clocks: the releases that each program knows after each of its synchronising accesses.

The releases to a location are numbered by *versions*. A read-modify-write that releases adds a
version that includes the earlier ones; a plain release replaces them, so it begins a new *sequence*
of versions. A program that knows a version of a sequence knows everything that was published in the
sequence up to this version. A *moment* is the index of an access in memory order.

Example, for one lock word:

    moment  program  access                                  sequence  version
       0       0     exchange that acquires and releases        0         1
       1       1     exchange that acquires and releases        0         2
       2       1     plain store that releases                  1         1

Program 1 reads version 1 of sequence 0 at moment 1, so it knows the release of program 0. A program
that acquires after moment 2 reads version 1 of sequence 1. That includes what program 1 knew.

A clock can hold the newest known version of each sequence or the last known release of each
program. `Chains` computes the former for all accesses at once, in launches in which each program
synchronises through one word. `Replay` handles any launch: native code executes the sync records in
memory order and keeps clocks of `WIDTH` entries, so it runs once for every `WIDTH` programs or
sequences that the queries name.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ttools.core.process.phases import tick
from ttools.interpreter.runtime.support import native_clocks as native
from ttools.sanitizer.races.integer_columns import changes, distinct, order_by
from ttools.sanitizer.races.records import ACQUIRE, RELEASE, RMW, Bools, Ints

_NONE: Mapping[int, int] = {}


@dataclass(frozen=True)
class Published:
    """The sequence and version at the location of each access, before and after it.

    Attributes:
        releases: Moments of the accesses that release, ascending.
        sequence: Sequence at the location after each access, as a number from 0.
        version: Version of that sequence after each access; 0 before the first release.
        previous: Sequence at the location before each access; -1 for the first access to the
            location.
    """

    releases: Ints
    sequence: Ints
    version: Ints
    previous: Ints


def published(locations: Ints, flags: Ints) -> Published:
    """Assign sequences and versions to the accesses of each location.

    Args:
        locations: Location of each access in memory order, as a number from 0.
        flags: Flags of each access.
    """
    order = order_by(locations, np.arange(len(locations)))
    flags_there = flags[order]
    releases = (flags_there & RELEASE) != 0
    fresh: Bools = changes(locations[order])
    restarts = releases & ((flags_there & RMW) == 0)
    heads = np.flatnonzero(fresh | restarts)
    length = np.diff(np.append(heads, len(order)))
    numbers = np.repeat(np.arange(len(heads)), length)
    count = np.cumsum(releases)
    # A release that begins a sequence is the first version of the sequence.
    versions = count - np.repeat((count - releases)[heads], length)
    previous = np.where(fresh, -1, np.append(-1, numbers[:-1]))
    columns = []
    for values in (numbers, versions, previous):
        column = np.empty(len(order), np.int64)
        column[order] = values
        columns.append(column)
    return Published(np.flatnonzero(flags & RELEASE), *columns)


class Replay:
    """Vector clocks of any launch, computed by native code.

    Args:
        locations: Location of each access in memory order, as a number from 0.
        programs: Program of each access.
        flags: Flags of each access.
        history: Sequences and versions of the locations.
        read_moments: Maps the moment of each poll that returned an earlier value to the last moment
            whose release it acquires.
    """

    def __init__(
        self,
        locations: Ints,
        programs: Ints,
        flags: Ints,
        history: Published,
        read_moments: Mapping[int, int] = _NONE,
    ) -> None:
        self._history = history
        self._programs = distinct(programs)
        self._owner = np.searchsorted(self._programs, programs)
        acquires, releases = (flags & ACQUIRE) != 0, (flags & RELEASE) != 0
        words = len(self._programs) + locations
        steps = np.full((len(locations), native.STEP_COLUMNS), -1, np.int32)
        steps[:, native.PROGRAM] = self._owner
        steps[:, native.READS] = np.where(acquires, words, -1)
        steps[:, native.WRITES] = np.where(releases, words, -1)
        steps[:, native.KEEPS] = (flags & RMW) != 0
        steps[:, native.TAKES] = acquires
        self._rows = int(words.max(initial=-1)) + 1
        self._steps = steps
        self._look_back(locations, read_moments)

    def _look_back(self, locations: Ints, read_moments: Mapping[int, int]) -> None:
        """Make each poll in `read_moments` acquire an earlier state of its location's clock.

        `read_moments` maps each poll to a moment. The last release at or before that moment saves
        the location's clock in a new row, and the poll acquires that row.
        """
        moments = np.array([m for m in read_moments if self._steps[m, native.READS] >= 0], np.int64)
        if len(moments) == 0:
            return
        releases, span = self._history.releases, len(locations) + 1
        order = order_by(locations[releases], releases)
        keys = locations[releases][order] * span + releases[order]
        bounds = np.array([read_moments[int(m)] for m in moments], np.int64)
        at = np.searchsorted(keys, locations[moments] * span + bounds, "right") - 1
        source = releases[order][np.maximum(at, 0)] if len(keys) else np.zeros_like(at)
        some = (at >= 0) & (locations[source] == locations[moments])
        copied = distinct(source[some])
        self._steps[copied, native.COPIES] = self._rows + np.arange(len(copied))
        copies = self._rows + np.searchsorted(copied, source)
        self._steps[moments, native.READS] = np.where(some, copies, -1)
        self._steps[moments, native.TAKES] = 0
        self._rows += len(copied)

    def newest(self, sequence: Ints, moment: Ints) -> Ints:
        """Return, for each query, the newest version of a sequence known at a moment; 0 if none.

        Args:
            sequence: Sequence of each query, as numbered by `published`.
            moment: Moment of the last sync record of the querying program; -1 if there is none.
        """
        releases = self._history.releases
        keys, values = self._history.sequence[releases], self._history.version[releases]
        return self._answers(keys, values, sequence, moment)

    def latest(self, program: Ints, moment: Ints) -> Ints:
        """Return, for each query, the last release of a program that is known at a moment, or -1.

        Args:
            program: Releasing program of each query.
            moment: Moment of the last sync record of the querying program; -1 if there is none.
        """
        releases = self._history.releases
        queried = np.searchsorted(self._programs, program)
        return self._answers(self._owner[releases], releases + 1, queried, moment) - 1

    def knows_all(self, group: Ints, needed: Ints, queried: Ints, moment: Ints) -> Bools:
        """Return, for each moment, whether its program knows all releases of a group.

        Instead of a release, a later release of the same program may be known. Releases by the
        moment's own program are skipped.

        Args:
            group: Group of each needed release, ascending; a program occurs at most once in a
                group.
            needed: Moment of each needed release.
            queried: Group with which each moment is compared.
            moment: Moment of the last sync record of the querying program; -1 if there is none.
        """
        owner = self._owner[needed]
        programs = len(self._programs)
        mine = np.where(moment >= 0, self._owner[np.maximum(moment, 0)], -1)
        keys = np.sort(group * programs + owner)
        low, high = (np.searchsorted(group, queried, side) for side in ("left", "right"))
        own = queried * programs + mine
        at = np.minimum(np.searchsorted(keys, own), max(len(keys) - 1, 0))
        has_own = (mine >= 0) & (keys[at] == own) if len(keys) else np.zeros(len(queried), np.bool_)
        foreign = high - low - has_own
        result: Bools = (foreign == 0) | (moment >= 0)
        first = np.full(programs, len(self._steps))
        np.minimum.at(first, owner, needed)
        wanted = distinct(owner)
        wanted = wanted[order_by(first[wanted])]
        rank = np.full(programs, -1)
        rank[wanted] = np.arange(len(wanted))
        clocks = np.zeros((self._rows, native.WIDTH), np.int32)
        part = rank[owner] // native.WIDTH
        order = order_by(part, group)
        by_moment = order_by(moment)
        releases = self._history.releases
        heads = np.flatnonzero(changes(part[order]))
        for chosen in np.split(order, heads[1:]) if len(heads) else ():
            number = int(part[chosen[0]])
            tick(number * native.WIDTH, len(wanted), "programs")
            here = distinct(group[chosen])
            row = np.searchsorted(here, queried[by_moment])
            present = np.append(here, -1)[row] == queried[by_moment]
            open_ = present & result[by_moment] & (foreign[by_moment] > 0)
            questioned, row = by_moment[open_], row[open_]
            if len(questioned) == 0:
                continue
            place = rank - number * native.WIDTH
            needs = np.zeros((len(here), native.WIDTH), np.int32)
            needs[np.searchsorted(here, group[chosen]), place[owner[chosen]]] = needed[chosen] + 1
            begin = min(int(needed[chosen].min()), int(moment[questioned[0]]))
            end = int(moment[questioned[-1]]) + 1
            self._mark(begin, end, self._owner[releases], releases + 1, place)
            skipped = place[mine[questioned]]
            skipped = np.where((skipped >= 0) & (skipped < native.WIDTH), skipped, -1)
            columns = [moment[questioned] - begin, skipped, row]
            questions = np.stack(columns, 1).astype(np.int32)
            answers = native.replay(self._steps[begin:end], clocks, questions, needs)
            result[questioned] = answers != 0
        return result

    def _answers(self, keys: Ints, values: Ints, queried: Ints, moment: Ints) -> Ints:
        """Return, for each query, the largest value of a key known at a moment; 0 if none is.

        Args:
            keys: Key of each release, as a number from 0.
            values: Value of each release; positive, and ascending for each key.
            queried: Key of each query.
            moment: Moment of each query.
        """
        # Keys whose first releases are close together share a replay, so that each replay covers
        # few records.
        first = np.full(
            int(max(keys.max(initial=-1), queried.max(initial=-1))) + 1, len(self._steps)
        )
        np.minimum.at(first, keys, self._history.releases)
        wanted = distinct(queried)
        wanted = wanted[order_by(first[wanted])]
        rank = np.full(len(first), -1)
        rank[wanted] = np.arange(len(wanted))
        result = np.zeros(len(queried), np.int64)
        order = order_by(rank[queried] // native.WIDTH, moment, rank[queried])
        order = order[(moment[order] >= first[queried[order]])]
        group = rank[queried[order]] // native.WIDTH
        heads = np.flatnonzero(changes(group))
        clocks = np.zeros((self._rows, native.WIDTH), np.int32)
        for part in np.split(order, heads[1:]) if len(heads) else ():
            number = int(rank[queried[part[0]]]) // native.WIDTH
            tick(number * native.WIDTH, len(wanted), "programs and words")
            begin = int(first[wanted[number * native.WIDTH]])
            end = int(moment[part[-1]]) + 1
            self._mark(begin, end, keys, values, rank - number * native.WIDTH)
            place = rank[queried[part]] - number * native.WIDTH
            none = np.full(len(part), -1)
            questions = np.stack([moment[part] - begin, place, none], 1).astype(np.int32)
            fresh = changes(questions[:, 0], questions[:, 1])
            answers = native.replay(self._steps[begin:end], clocks, questions[fresh])
            result[part] = answers[np.cumsum(fresh) - 1]
        return result

    def _mark(self, begin: int, end: int, keys: Ints, values: Ints, place: Ints) -> None:
        """Record which clock entry each release sets, and the value to which it sets the entry."""
        low, high = np.searchsorted(self._history.releases, (begin, end))
        moments = self._history.releases[low:high]
        here = place[keys[low:high]]
        inside = (here >= 0) & (here < native.WIDTH)
        self._steps[moments, native.KEY] = np.where(inside, here, -1)
        self._steps[moments, native.VALUE] = values[low:high]


class Chains:
    """Clocks of launches for which `are_chains` holds, computed for all accesses at once.

    Args:
        programs: Program of each access, in memory order.
        flags: Flags of each access.
        history: Sequences and versions of the locations.
    """

    def __init__(self, programs: Ints, flags: Ints, history: Published) -> None:
        self._sequence = history.sequence
        # An acquire learns the current version, and versions only grow. The knowledge of a program
        # is therefore the running maximum over its acquires.
        order = order_by(programs, np.arange(len(programs)))
        group = np.cumsum(changes(programs[order]))
        learned = np.where(flags[order] & ACQUIRE, history.version[order], 0)
        span = int(history.version.max(initial=0)) + 1
        self._newest = np.empty(len(order), np.int64)
        self._newest[order] = np.maximum.accumulate(group * span + learned) - group * span

    def newest(self, sequence: Ints, moment: Ints) -> Ints:
        """Return the newest version of each sequence known at each moment; see `Replay.newest`."""
        if len(self._sequence) == 0:
            return np.zeros(len(sequence), np.int64)
        mine = (moment >= 0) & (self._sequence[moment] == sequence)
        return np.where(mine, self._newest[moment], 0)


def are_chains(locations: Ints, programs: Ints, flags: Ints) -> bool:
    """Return whether each program uses only one location and all releases are read-modify-writes.

    If so, each location has one sequence, and a program's clock is a single version.
    """
    if np.any((flags & (RELEASE | RMW)) == RELEASE):
        return False
    order = order_by(programs, locations)
    fresh: Bools = changes(programs[order])
    return bool(np.array_equal(fresh, fresh | changes(locations[order])))
