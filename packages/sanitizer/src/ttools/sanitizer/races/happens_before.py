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
from ttools.interpreter.runtime.support.native_clocks import WIDTH
from ttools.sanitizer.races.classes import ALONE, ATOMIC, LOAD, POLL, STORE
from ttools.sanitizer.races.clocks import Clocks
from ttools.sanitizer.races.keys import changes, order_by, ranges
from ttools.sanitizer.races.overlap import BLOCK, Cells
from ttools.sanitizer.races.records import SCALAR, Bools, Ints, Records, Site, column
from ttools.sanitizer.races.rows import INTRA_PROGRAM, OVERLAPPING_STORE, RACE, Rows, join

_MANY_PAIRS = 1 << 18
"""Pairs of an access and a program from which on a replay answers for many pairs at once."""


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
        names = ("barrier", "flags", "site")
        self._releases = {name: column(clocks.syncs, name) for name in names}

    def classify(self, first: Ints, second: Ints) -> tuple[Ints, Ints, Ints]:
        """Which pairs conflict, of what kind, and at the site of which release (or -1)."""
        foreign = np.flatnonzero(self.program[first] != self.program[second])
        first, second = first[foreign], second[foreign]
        needed = self._needed_barrier(first)
        release = self._clocks.ordering_releases(
            self.program[first], self.epoch[first], needed, self.moment[second]
        )
        barrier, flags, site = (each[release] for each in self._releases.values())
        ordered = release >= 0
        published = needed < barrier
        # A tile of releases is made by the threads that made a tile of accesses of its shape.
        own_lane = (flags & SCALAR) == 0
        published |= own_lane & (self._form[site] == self._form[self.site[first]])
        both = self.kind[first] & self.kind[second]
        kind = np.where(both == STORE, OVERLAPPING_STORE, RACE)
        kind = np.where(ordered, INTRA_PROGRAM, kind)
        at = np.where(ordered, site, -1)
        bad = ~(ordered & published)
        return foreign[bad], kind[bad], at[bad]

    def orders_all(self, run: Ints, before: Ints, asked: Ints, after: Ints) -> Bools:
        """For each record of `after` whether one known version orders all records of a run.

        False decides nothing: the pairs have to be looked at.

        Args:
            run: Run of each record of `before`; see `Clocks.orders_all`.
            before: Records of the runs.
            asked: Run that each record of `after` is compared with.
            after: Any number of records.
        """
        return self._clocks.orders_all(
            run,
            self.program[before],
            self.epoch[before],
            self._needed_barrier(before),
            asked,
            self.moment[after],
        )

    def orders_strictest(self, run: Ints, before: Ints, asked: Ints, after: Ints) -> Bools:
        """The same, decided by what each program of the run has to publish at the latest."""
        order = order_by(run, self.program[before])
        heads = np.flatnonzero(changes(run[order], self.program[before][order]))
        program, at = self.program[before][order][heads], run[order][heads]
        epoch = np.maximum.reduceat(self.epoch[before][order], heads)
        needed = np.maximum.reduceat(self._needed_barrier(before)[order], heads)
        low, high = (np.searchsorted(at, asked, side) for side in ("left", "right"))
        if int((high - low).sum()) > _MANY_PAIRS:
            return self._clocks.publish_all(at, program, epoch, needed, asked, self.moment[after])
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
        """What the barrier count of a release must exceed to publish a record; -1 for scalars."""
        return np.where(self._tile[records], self._barrier[records], -1)


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
    yield from _between_long_runs(
        position, run, length, np.flatnonzero(facing & ~small), index, classifier
    )


def _between_long_runs(
    position: Ints, run: Ints, length: Ints, chosen: Ints, index: Ints, classifier: _Classifier
) -> Iterator[tuple[Ints, Ints]]:
    """The products of neighbouring runs, without what a few questions about whole runs settle.

    Where pairs have to be looked at one by one, those of one access of the second run at a time,
    and no more once a conflict was found: one is enough to report the cell.

    Args:
        position: What the runs are made of.
        run: Where in `position` each run begins.
        length: How long it is.
        chosen: The first of each two neighbouring runs.
        index: Record at each position.
        classifier: Decides.
    """
    if len(chosen) == 0:
        return
    member, owner = ranges(run[chosen], length[chosen])
    first = position[member]
    member, asked = ranges(run[chosen + 1], length[chosen + 1])
    second = position[member]
    # What one program does in one moment is ordered alike.
    records = index[second]
    order = order_by(asked, classifier.moment[records], classifier.program[records])
    keys = (asked[order], classifier.moment[records][order], classifier.program[records][order])
    kept = np.sort(order[changes(*keys)])
    second, asked = second[kept], asked[kept]
    left = ~classifier.orders_all(owner, index[first], asked, index[second])
    second, asked = second[left], asked[left]
    size = length[chosen]
    begin = np.cumsum(size) - size
    conflicts: list[tuple[Ints, Ints, Ints]] = []
    most = 1
    while len(asked):
        tick()
        # Of each run the next few accesses of the second one, and ever more as none conflicts.
        heads = np.flatnonzero(changes(asked))
        rank = np.arange(len(asked)) - np.repeat(heads, np.diff(np.append(heads, len(asked))))
        now = np.flatnonzero(rank < most)
        products = np.cumsum(size[asked[now]] // WIDTH + 1)
        now = now[: max(1, int(np.searchsorted(products, BLOCK, "right")))]
        done = np.zeros(len(asked), np.bool_)
        done[now] = classifier.orders_strictest(owner, index[first], asked[now], index[second[now]])
        # The first access of each second run that is not seen to be ordered after all of the first.
        open_ = now[~done[now]]
        open_ = open_[changes(asked[open_])]
        member, which = ranges(begin[asked[open_]], size[asked[open_]])
        one, two = first[member], second[open_[which]]
        bad = classifier.classify(index[one], index[two])[0]
        conflicts.append((asked[open_[which[bad]]], one[bad], two[bad]))
        done[open_] = True
        until = np.full(len(chosen), len(asked))
        until[asked[open_]] = open_
        done &= np.arange(len(asked)) <= until[asked]
        left = ~done & ~np.isin(asked, conflicts[-1][0])
        second, asked = second[left], asked[left]
        most *= 4
    if conflicts:
        run_of, one, two = map(np.concatenate, zip(*conflicts, strict=True))
        order = order_by(run_of)
        yield one[order], two[order]
