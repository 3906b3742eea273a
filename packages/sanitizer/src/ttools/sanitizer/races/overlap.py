"""Overlapping intervals: clusters, cells, and the pairs of sites that share a cell.

A *cell* is a maximal run of bytes in which no interval starts or ends. For example, the intervals
[0, 8) and [4, 12) form the cells [0, 4), [4, 8) and [8, 12), and both intervals cover the second
cell. All intervals that cover a cell share every byte of it, so that it suffices to compare them
once for each cell. Every function takes intervals sorted by their start.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ttools.core.process.phases import tick
from ttools.core.ranges import ranges
from ttools.sanitizer.races.integer_columns import changes, order_by
from ttools.sanitizer.races.records import Bools, Ints

BLOCK = 1 << 22
"""Largest number of pairs of a cell and an interval that are in memory at once."""
THIN = 4
"""Mean number of cells per interval above which equal intervals are reduced to two owners."""


@dataclass(frozen=True)
class Meetings:
    """A table with one row for each cell and each pair of clashing sites that access it.

    `first` and `second` are indices of the intervals of the two lowest different owners.
    """

    start: Ints
    end: Ints
    first: Ints
    second: Ints


def overlapping(start: Ints, end: Ints) -> Bools:
    """Return a mask of the intervals that overlap another interval."""
    joined = np.zeros(len(start) + 1, np.bool_)
    if len(start) > 1:
        np.less(start[1:], np.maximum.accumulate(end)[:-1], out=joined[1:-1])
    return joined[:-1] | joined[1:]


def cluster_heads(start: Ints, end: Ints) -> Ints:
    """Return the index of the first interval of each cluster.

    A cluster is a maximal set of intervals that are connected by overlaps.
    """
    fresh = np.ones(len(start), np.bool_)
    np.greater_equal(start[1:], np.maximum.accumulate(end)[:-1], out=fresh[1:])
    return np.flatnonzero(fresh)


class Cells:
    """The cells of a set of intervals.

    Attributes:
        cuts: Ascending bounds; cell `i` is `[cuts[i], cuts[i + 1])`.
        low: First cell of each interval.
        width: Number of cells of each interval.
    """

    def __init__(self, start: Ints, end: Ints) -> None:
        # Both parts are sorted or nearly sorted, so the stable sort merges them in linear time.
        bounds = np.sort(np.concatenate([start, end]), kind="stable")
        self.cuts = bounds[changes(bounds)]
        self.low = np.searchsorted(self.cuts, start)
        self.width = np.searchsorted(self.cuts, end) - self.low

    def blocks(self, chosen: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Yield the pairs (cell, interval) of the chosen intervals in blocks.

        All pairs of a cell are in the same block.
        """
        low, width = self.low[chosen], self.width[chosen]
        total = int(width.sum())
        if total == len(chosen):
            yield low, chosen
            return
        edges = np.array([0, len(self.cuts)])
        if total > BLOCK:
            depth = np.bincount(low, minlength=len(self.cuts))
            depth -= np.bincount(low + width, minlength=len(self.cuts))
            running = np.cumsum(np.cumsum(depth))
            inner = np.searchsorted(running, np.arange(BLOCK, total, BLOCK))
            edges = np.unique(np.concatenate([edges, inner]))
        for begin, stop in pairwise(edges.tolist()):
            tick(int(np.searchsorted(low, begin)), len(chosen), "records")
            inside = np.flatnonzero((low < stop) & (low + width > begin))
            left = np.maximum(low[inside], begin)
            right = np.minimum(low[inside] + width[inside], stop)
            cell, owner = ranges(left, right - left)
            yield cell, chosen[inside[owner]]


def meetings(start: Ints, end: Ints, site: Ints, owner: Ints, clash: Bools) -> Meetings:
    """Return every cell in which different owners access two clashing sites.

    Args:
        start: First byte of each interval, ascending.
        end: End of each interval.
        site: Site of each interval, an index into `clash`.
        owner: Program or thread of each interval; any integers.
        clash: Matrix over pairs of sites; `clash[a, b]` with `a <= b` is True if accesses of a and
            b by different owners conflict. The lower triangle is not read.
    """
    cells = Cells(start, end)
    chosen = np.arange(len(start))
    if int(cells.width.sum()) > THIN * len(start):
        chosen = _lowest_two(cells, site, owner)
    parts = [
        _meet(cell, index, site, owner, clash) for cell, index in cells.blocks(chosen) if len(cell)
    ]
    none = (np.empty(0, np.int64),) * 3
    cell, first, second = map(np.concatenate, zip(none, *parts, strict=True))
    return Meetings(cells.cuts[cell], cells.cuts[cell + 1], first, second)


def _lowest_two(cells: Cells, site: Ints, owner: Ints) -> Ints:
    """Return the intervals of the two lowest owners among intervals with equal site and bytes."""
    order = order_by(cells.low, cells.width, site, owner)
    same = changes(cells.low[order], cells.width[order], site[order])
    one, two = _heads(same, same | changes(owner[order]))
    return np.sort(order[np.concatenate([one, two[two >= 0]])])


def _heads(group: Bools, distinct: Bools) -> tuple[Ints, Ints]:
    """Return the positions of the first two distinct rows of each group.

    The second position is -1 if the group has only one distinct row.
    """
    first = np.flatnonzero(group)
    rows = np.flatnonzero(distinct)
    following = np.append(rows, len(group))[np.searchsorted(rows, first) + 1]
    return first, np.where(following < np.append(first[1:], len(group)), following, -1)


def _meet(
    cell: Ints, index: Ints, site: Ints, owner: Ints, clash: Bools
) -> tuple[Ints, Ints, Ints]:
    order = order_by(cell, site[index], owner[index])
    cell, index = cell[order], index[order]
    at, by = site[index], owner[index]
    group = changes(cell, at)
    one, two = _heads(group, group | changes(by))
    # From here on, each row represents one site in one cell.
    cell, at = cell[one], at[one]
    lowest = index[one]
    next_lowest = np.where(two >= 0, index[two], -1)
    heads = np.flatnonzero(changes(cell))
    in_cell = np.diff(np.append(heads, len(cell)))
    remaining = np.repeat(heads + in_cell, in_cell) - np.arange(len(cell))
    b, a = ranges(np.arange(len(cell)), remaining)
    wanted = clash[at[a], at[b]]
    a, b = a[wanted], b[wanted]
    first, second = _lowest_pair(lowest, next_lowest, owner, a, b)
    met = (first >= 0) & (second >= 0)
    return cell[a[met]], first[met], second[met]


def _lowest_pair(
    lowest: Ints, next_lowest: Ints, owner: Ints, a: Ints, b: Ints
) -> tuple[Ints, Ints]:
    """Return intervals of `a` and `b` with different owners that are the lowest possible.

    One of the two is -1 if both sets have only one owner, and it is the same.
    """
    one, other = lowest[a], lowest[b]
    equal = owner[one] == owner[other]
    after_a, after_b = next_lowest[a], next_lowest[b]
    # If both sets begin with the same owner, keep this owner in one set and advance to the next
    # owner in the other set. The set to advance is the one whose next owner is lower.
    keep_a = (after_b >= 0) & ((after_a < 0) | (owner[after_b] <= owner[after_a]))
    return (
        np.where(equal & ~keep_a, after_a, one),
        np.where(equal & keep_a, after_b, other),
    )
