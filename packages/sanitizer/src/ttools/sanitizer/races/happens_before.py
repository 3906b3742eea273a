"""Finds races between programs of a launch that synchronises, by the happens-before order.

Two accesses of different programs race if they conflict and neither happens before the other. An
access happens before an access of another program if its program *releases* after it, and the other
program *knows* that release when it makes the second access. A program learns of releases by
*acquiring* a word: it then knows what was published there, and publishes that with its own next
release. This is the happens-before order of memory models, and what a program knows is its *vector
clock*: the last release known of each program.

Terms
    epoch    index of a sync record within its program; an access has the number of sync records of
             its program before it, so a release with epoch e publishes accesses with epochs <= e
    moment   index of a sync record in the memory order of the launch; an access belongs to the
             last sync record of its program before it, or to -1

Example: a chain of flags. Program 0 stores `x` and releases flag f; program 1 acquires f and
releases flag g; program 2 acquires g and loads `x`.

    moment  program  operation   epoch   clock of the program afterwards
       0       0     release f     0     (program 0: 0)
       1       1     acquire f     0     (program 0: 0)
       2       1     release g     1     (program 0: 0, program 1: 2)
       3       2     acquire g     0     (program 0: 0, program 1: 2)

The store of `x` has epoch 0, because no sync record of program 0 comes before it. The load belongs
to moment 3, where program 2 knows the release of program 0 at moment 0. The epoch of that release
is not less than the epoch of the store, so the store happens before the load. Without the acquire
at moment 1, g would not publish the release of program 0, and both accesses would race.

`direct_synchronisation` answers most queries without clocks, from one release and one acquire;
chains such as this one need the clocks of `vector_clocks`. If `x` is a tile, there must also be a
barrier between the store and the release, because several threads of program 0 store parts of the
tile. If only that barrier is missing, the race is reported as one inside program 0
(`INTRA_PROGRAM`).

The result holds for the order in which the programs were executed. `poll_values` makes a second
execution show races that this order hides.

Choice of pairs: comparing all accesses of a cell (`overlap`) would be quadratic. The accesses of a
cell are sorted in an order that extends happens-before, for example

    store A, load B, load C, store D, load E

It is sufficient that each access is ordered after the last store before it (A-B, A-C, A-D, D-E) and
before the next store after it (B-D, C-D): A-E is then ordered because A-D and D-E are. Loads and
atomics conflict, too, so each run of loads is compared with the neighbouring runs of atomics. An
atomic whose scope is its own program counts as a store here. If one of these pairs is not ordered,
it is reported; if all are, no conflicting pair of the cell races.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from ttools.core.process.phases import tick
from ttools.core.ranges import ranges
from ttools.interpreter.runtime.support.native_clocks import WIDTH
from ttools.sanitizer.races.access_classes import ALONE, ATOMIC, LOAD, POLL, STORE
from ttools.sanitizer.races.clocks import Clocks
from ttools.sanitizer.races.conflict_table import INTRA_PROGRAM, OVERLAPPING_STORE, RACE, Rows, join
from ttools.sanitizer.races.integer_columns import changes, order_by
from ttools.sanitizer.races.overlap import BLOCK, Cells
from ttools.sanitizer.races.records import SCALAR, Bools, Ints, Records, Site, column

_MANY_PAIRS = 1 << 18
"""Number of pairs of an access and a program above which `Clocks.publish_all` answers them."""


def ordered_rows(records: Records, sites: Sequence[Site], classes: Ints, clocks: Clocks) -> Rows:
    """Return the conflicts between programs that happens-before does not order.

    Args:
        records: Access records, sorted by start.
        sites: Sites of the launch in program order.
        classes: Class of each site.
        clocks: Happens-before order of the launch.
    """
    cells = Cells(column(records, "start"), column(records, "end"))
    by = _Classifier(records, sites, classes, clocks)
    keys = (by.moment, by.program, by.kind, by.site, by.epoch, column(records, "lane"))
    parts = []
    for cell, index in cells.blocks(np.arange(len(records))):
        order = order_by(cell, *(key[index] for key in keys))
        cell, index = cell[order], index[order]
        for first, second in _candidates(cell, index, by):
            tick()
            row, kind, release = by.classify(index[first], index[second])
            start, end = cells.cuts[cell[first[row]]], cells.cuts[cell[first[row]] + 1]
            parts.append(Rows(kind, start, end, index[first[row]], index[second[row]], release))
    return join(parts)


class _Classifier:
    """Decides whether pairs of records race; the first record of a pair is earlier in the cell."""

    def __init__(
        self, records: Records, sites: Sequence[Site], classes: Ints, clocks: Clocks
    ) -> None:
        self.program, self.epoch = column(records, "program"), column(records, "epoch")
        self.site = column(records, "site")
        self.moment = clocks.moments(self.program, self.epoch)
        self.kind = classes[self.site]
        self._barrier = column(records, "barrier")
        self._clocks = clocks
        layouts = [(site.order, site.shape) for site in sites]
        self._layout = np.array([layouts.index(layout) for layout in layouts], np.int64)
        self._tile = np.array([site.numel > 1 for site in sites], np.bool_)[self.site]
        names = ("barrier", "flags", "site")
        self._releases = {name: column(clocks.syncs, name) for name in names}

    def classify(self, first: Ints, second: Ints) -> tuple[Ints, Ints, Ints]:
        """Find the pairs that race.

        Returns:
            The indices of these pairs, the kind of each, and the site of the release that lacks a
            barrier before it, or -1.
        """
        foreign = np.flatnonzero(self.program[first] != self.program[second])
        first, second = first[foreign], second[foreign]
        needed = self._needed_barrier(first)
        release = self._clocks.ordering_releases(
            self.program[first], self.epoch[first], needed, self.moment[second]
        )
        barrier, flags, site = (values[release] for values in self._releases.values())
        ordered = release >= 0
        published = needed < barrier
        # If the release is a tile of the same shape as the access, each thread releases its own
        # elements.
        own_lane = (flags & SCALAR) == 0
        published |= own_lane & (self._layout[site] == self._layout[self.site[first]])
        both = self.kind[first] & self.kind[second]
        kind = np.where(both == STORE, OVERLAPPING_STORE, RACE)
        kind = np.where(ordered, INTRA_PROGRAM, kind)
        at = np.where(ordered, site, -1)
        bad = ~(ordered & published)
        return foreign[bad], kind[bad], at[bad]

    def orders_all(self, run: Ints, before: Ints, queried: Ints, after: Ints) -> Bools:
        """Return, for each record of `after`, whether one known version orders a whole run.

        False means that the order is not decided, so that the pairs must be compared.

        Args:
            run: Run of each record of `before`, as in `Clocks.orders_all`.
            before: Indices of the records of the runs.
            queried: Run with which each record of `after` is compared.
            after: Indices of the records that come later in the cell.
        """
        return self._clocks.orders_all(
            run,
            self.program[before],
            self.epoch[before],
            self._needed_barrier(before),
            queried,
            self.moment[after],
        )

    def orders_strictest(self, run: Ints, before: Ints, queried: Ints, after: Ints) -> Bools:
        """Return, for each record of `after`, whether it is ordered after a run.

        Only those records of the run count that other programs have made.

        For each program in the run, only its last access is compared, because it is published last.
        The arguments are those of `orders_all`.
        """
        order = order_by(run, self.program[before])
        heads = np.flatnonzero(changes(run[order], self.program[before][order]))
        program, at = self.program[before][order][heads], run[order][heads]
        epoch = np.maximum.reduceat(self.epoch[before][order], heads)
        needed = np.maximum.reduceat(self._needed_barrier(before)[order], heads)
        low, high = (np.searchsorted(at, queried, side) for side in ("left", "right"))
        if int((high - low).sum()) > _MANY_PAIRS:
            return self._clocks.publish_all(at, program, epoch, needed, queried, self.moment[after])
        pair, which = ranges(low, high - low)
        foreign = np.flatnonzero(program[pair] != self.program[after][which])
        pair, which = pair[foreign], which[foreign]
        release = self._clocks.ordering_releases(
            program[pair], epoch[pair], needed[pair], self.moment[after][which]
        )
        published = (release >= 0) & (needed[pair] < self._releases["barrier"][release])
        open_: Bools = np.bincount(which, ~published, len(after)) > 0
        return ~open_

    def _needed_barrier(self, records: Ints) -> Ints:
        """Return the barrier count that a release must exceed to publish a record.

        The result is -1 for scalar accesses, which need no barrier.
        """
        return np.where(self._tile[records], self._barrier[records], -1)


def _candidates(cell: Ints, index: Ints, classifier: _Classifier) -> Iterator[tuple[Ints, Ints]]:
    """Yield the pairs of positions to compare, as the module's docstring explains."""
    kind = classifier.kind[index]
    count = len(cell)
    # All accesses of a program at one moment have the same order with respect to other programs, so
    # the stores before and after the whole group are searched.
    together = np.flatnonzero(changes(cell, classifier.moment[index], classifier.program[index]))
    length = np.diff(np.append(together, count))
    alone = (kind & ALONE) > 0
    stored = np.where(alone, np.arange(count), -1)
    last = np.maximum.accumulate(np.append(-1, stored))[np.repeat(together, length)]
    follows = np.flatnonzero(last >= 0)
    follows = follows[cell[last[follows]] == cell[follows]]
    yield last[follows], follows
    stored = np.where(alone, np.arange(count), count)
    upcoming = np.append(np.minimum.accumulate(stored[::-1])[::-1], count)
    upcoming = upcoming[np.repeat(together + length, length)]
    leads = np.flatnonzero(~alone & (upcoming < count))
    leads = leads[cell[upcoming[leads]] == cell[leads]]
    yield leads, upcoming[leads]
    yield from _between_runs(cell, index, classifier)


def _between_runs(cell: Ints, index: Ints, classifier: _Classifier) -> Iterator[tuple[Ints, Ints]]:
    """Yield pairs of a load and an atomic from neighbouring runs of loads and of atomics."""
    position = np.flatnonzero(classifier.kind[index] != POLL)
    kind = classifier.kind[index[position]]
    run = np.flatnonzero(changes(cell[position], kind))
    length = np.diff(np.append(run, len(position)))
    one, two = run[:-1], run[1:]
    facing = (kind[one] | kind[two]) == (LOAD | ATOMIC)
    facing &= cell[position[one]] == cell[position[two]]
    product = length[:-1] * length[1:]
    small = product <= 4 * (length[:-1] + length[1:])
    few = np.flatnonzero(facing & small)
    pair, owner = ranges(0, product[few])
    which = few[owner]
    yield (
        position[one[which] + pair // length[which + 1]],
        position[two[which] + pair % length[which + 1]],
    )
    yield from _between_long_runs(
        position, run, length, np.flatnonzero(facing & ~small), index, classifier
    )


def _between_long_runs(
    position: Ints, run: Ints, length: Ints, chosen: Ints, index: Ints, classifier: _Classifier
) -> Iterator[tuple[Ints, Ints]]:
    """Yield one racing pair for every two neighbouring runs that have such a pair.

    Queries about whole runs decide most cases. The remaining pairs are compared for one access of
    the second run at a time. The comparison of two runs stops at the first pair that races, because
    one pair is enough for a report.

    Args:
        position: Positions of the members of all runs in the order of the cell, run by run.
        run: Index in `position` at which each run begins.
        length: Number of members of each run.
        chosen: Indices of the runs that are each compared with the following run.
        index: Record at each position.
        classifier: Decides which pairs of records race.
    """
    if len(chosen) == 0:
        return
    member, owner = ranges(run[chosen], length[chosen])
    first = position[member]
    member, queried = ranges(run[chosen + 1], length[chosen + 1])
    second = position[member]
    # All accesses of a program at one moment are ordered alike, so only one of them is kept.
    records = index[second]
    order = order_by(queried, classifier.moment[records], classifier.program[records])
    keys = (queried[order], classifier.moment[records][order], classifier.program[records][order])
    kept = np.sort(order[changes(*keys)])
    second, queried = second[kept], queried[kept]
    left = ~classifier.orders_all(owner, index[first], queried, index[second])
    second, queried = second[left], queried[left]
    size = length[chosen]
    begin = np.cumsum(size) - size
    conflicts: list[tuple[Ints, Ints, Ints]] = []
    most = 1
    while len(queried):
        tick()
        # Take the next `most` accesses of each second run; `most` grows while no pair races.
        heads = np.flatnonzero(changes(queried))
        rank = np.arange(len(queried)) - np.repeat(heads, np.diff(np.append(heads, len(queried))))
        now = np.flatnonzero(rank < most)
        products = np.cumsum(size[queried[now]] // WIDTH + 1)
        now = now[: max(1, int(np.searchsorted(products, BLOCK, "right")))]
        done = np.zeros(len(queried), np.bool_)
        done[now] = classifier.orders_strictest(
            owner, index[first], queried[now], index[second[now]]
        )
        # For each second run, take the first access that is not known to be ordered after the first
        # run.
        open_ = now[~done[now]]
        open_ = open_[changes(queried[open_])]
        member, which = ranges(begin[queried[open_]], size[queried[open_]])
        one, two = first[member], second[open_[which]]
        bad = classifier.classify(index[one], index[two])[0]
        conflicts.append((queried[open_[which[bad]]], one[bad], two[bad]))
        done[open_] = True
        until = np.full(len(chosen), len(queried))
        until[queried[open_]] = open_
        done &= np.arange(len(queried)) <= until[queried]
        left = ~done & ~np.isin(queried, conflicts[-1][0])
        second, queried = second[left], queried[left]
        most *= 4
    if conflicts:
        run_of, one, two = map(np.concatenate, zip(*conflicts, strict=True))
        order = order_by(run_of)
        yield one[order], two[order]
