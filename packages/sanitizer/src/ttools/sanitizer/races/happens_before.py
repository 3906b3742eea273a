"""Conflicts between programs of a launch that synchronises: meetings that no release orders.

In each cell the accesses are laid out in an order that extends happens-before. An atomic of local
scope conflicts with all that a store conflicts with, and counts as one here. If every access is
ordered after the last store before it, every store after all accesses since the store before it,
and every run of loads after the run of atomics before it and the other way round, then all
conflicting pairs are ordered; so only those pairs are asked about. The claim is for the order run.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from ttools.core.process.phases import tick
from ttools.sanitizer.races.classes import ALONE, ATOMIC, LOAD, POLL, STORE
from ttools.sanitizer.races.clocks import Clocks
from ttools.sanitizer.races.keys import changes, order_by, ranges
from ttools.sanitizer.races.overlap import Cells
from ttools.sanitizer.races.records import SCALAR, Bools, Ints, Records, Site, column
from ttools.sanitizer.races.rows import INTRA_PROGRAM, OVERLAPPING_STORE, RACE, Rows, join


def ordered_rows(records: Records, sites: Sequence[Site], classes: Ints, clocks: Clocks) -> Rows:
    """Conflicts that the order does not exclude.

    Args:
        records: Sorted by start.
        sites: In program order.
        classes: of each site.
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
    """Decides whether two records conflict, the first one laid out before the second."""

    def __init__(
        self, records: Records, sites: Sequence[Site], classes: Ints, clocks: Clocks
    ) -> None:
        self.program, self.epoch = column(records, "program"), column(records, "epoch")
        self.site = column(records, "site")
        self.moment = clocks.moments(self.program, self.epoch)
        self.kind = classes[self.site]
        self._barrier = column(records, "barrier")
        self._clocks = clocks
        forms = [(site.order, site.shape) for site in sites]
        self._form = np.array([forms.index(form) for form in forms], np.int64)
        self._tile = np.array([site.numel > 1 for site in sites], np.bool_)[self.site]
        names = ("epoch", "barrier", "flags", "site")
        self._releases = {name: column(clocks.syncs, name) for name in names}

    def classify(self, first: Ints, second: Ints) -> tuple[Ints, Ints, Ints]:
        """Which pairs conflict, of what kind, and at the site of which release (or -1)."""
        foreign = np.flatnonzero(self.program[first] != self.program[second])
        first, second = first[foreign], second[foreign]
        release = self._clocks.latest_releases(self.program[first], self.moment[second])
        epoch, barrier, flags, site = (each[release] for each in self._releases.values())
        ordered = (release >= 0) & (epoch >= self.epoch[first])
        published = ~self._tile[first] | (self._barrier[first] < barrier)
        # A tile of releases is made by the threads that made a tile of accesses of its shape.
        own_lane = (flags & SCALAR) == 0
        published |= own_lane & (self._form[site] == self._form[self.site[first]])
        both = self.kind[first] & self.kind[second]
        kind = np.where(both == STORE, OVERLAPPING_STORE, RACE)
        kind = np.where(ordered, INTRA_PROGRAM, kind)
        at = np.where(ordered, site, -1)
        bad = ~(ordered & published)
        return foreign[bad], kind[bad], at[bad]

    def orders_all(self, before: Ints, after: Ints) -> Bools:
        """For each record of `after` whether one known version orders all of `before`.

        False decides nothing: the pairs have to be looked at.
        """
        barrier = np.where(self._tile[before], self._barrier[before], -1)
        return self._clocks.orders_all(
            self.program[before], self.epoch[before], barrier, self.moment[after]
        )


def _candidates(cell: Ints, index: Ints, classifier: _Classifier) -> Iterator[tuple[Ints, Ints]]:
    """Pairs of positions to ask about; see the module's docstring."""
    kind = classifier.kind[index]
    count = len(cell)
    # What one program does in one moment is ordered alike: stores are sought before and after it.
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
    """Pairs of a load and an atomic in neighbouring runs of loads and of atomics."""
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
    pair, owner = ranges(np.zeros(len(few), np.int64), product[few])
    which = few[owner]
    yield (
        position[one[which] + pair // length[which + 1]],
        position[two[which] + pair % length[which + 1]],
    )
    stop = run + length
    for left in np.flatnonzero(facing & ~small).tolist():
        first = position[run[left] : stop[left]]
        second = position[run[left + 1] : stop[left + 1]]
        yield from _between_long_runs(first, second, index, classifier)


def _between_long_runs(
    first: Ints, second: Ints, index: Ints, classifier: _Classifier
) -> Iterator[tuple[Ints, Ints]]:
    """The product of two runs, without what one look at the whole first run settles.

    Where pairs have to be looked at one by one, those of one access of the second run at a time,
    and no more once a conflict was found: one is enough to report the cell.
    """
    for later in second[~classifier.orders_all(index[first], index[second])]:
        tick()
        others = np.full(len(first), later)
        yield first, others
        if len(classifier.classify(index[first], index[others])[0]):
            return
