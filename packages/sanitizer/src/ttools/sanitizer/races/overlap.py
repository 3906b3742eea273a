"""Which intervals overlap: clusters, cells, and the pairs of sites that meet in a cell.

A *cell* is a largest run of bytes inside which no interval starts or ends. Every function takes
intervals sorted by their start. Knows nothing of programs, kinds of access or order: which sites
may not meet is a matrix, and two accesses meet only if their owners differ.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ttools.core.process.phases import tick
from ttools.sanitizer.races.keys import changes, order_by, ranges
from ttools.sanitizer.races.records import Bools, Ints

BLOCK = 1 << 22
"""Pairs of a cell and an interval held at once."""
THIN = 4
"""Cells per interval from which on equal intervals are worth thinning."""


@dataclass(frozen=True)
class Meetings:
    """One row for each cell and each pair of sites that may not meet there, but do.

    `first` and `second` index the intervals of the lowest two owners that meet.
    """

    start: Ints
    end: Ints
    first: Ints
    second: Ints


def overlapping(start: Ints, end: Ints) -> Bools:
    """Which intervals overlap another one."""
    joined = np.zeros(len(start) + 1, np.bool_)
    if len(start) > 1:
        np.less(start[1:], np.maximum.accumulate(end)[:-1], out=joined[1:-1])
    return joined[:-1] | joined[1:]


def cluster_heads(start: Ints, end: Ints) -> Ints:
    """Where each largest set of intervals that hang together begins."""
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
        # Both parts are sorted or nearly so, which the stable sort merges in linear time.
        bounds = np.sort(np.concatenate([start, end]), kind="stable")
        self.cuts = bounds[changes(bounds)]
        self.low = np.searchsorted(self.cuts, start)
        self.width = np.searchsorted(self.cuts, end) - self.low

    def blocks(self, chosen: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Pairs (cell, interval) of the chosen intervals; all those of a cell in one block."""
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
    """Every cell where two sites that clash are reached by different owners.

    Args:
        start: First byte of each interval, ascending.
        end: End of each interval.
        site: Index into `clash`.
        owner: Any integers, such as programs or threads.
        clash: `clash[a, b]` for `a <= b`: a and b may not meet. The lower triangle is not read.
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
    """The intervals of the lowest two owners among those that share site and bytes."""
    order = order_by(cells.low, cells.width, site, owner)
    same = changes(cells.low[order], cells.width[order], site[order])
    one, two = _heads(same, same | changes(owner[order]))
    return np.sort(order[np.concatenate([one, two[two >= 0]])])


def _heads(group: Bools, distinct: Bools) -> tuple[Ints, Ints]:
    """Position of the first two distinct rows of each group; -1 where there is only one."""
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
    # From here on one row is one site in one cell.
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
    """The lowest two different owners of the sets a and b, or -1 if both hold only the same one."""
    one, other = lowest[a], lowest[b]
    equal = owner[one] == owner[other]
    after_a, after_b = next_lowest[a], next_lowest[b]
    # Both sets begin with the same owner: keep it on the side where the other set goes on lower.
    keep_a = (after_b >= 0) & ((after_a < 0) | (owner[after_b] <= owner[after_a]))
    return (
        np.where(equal & ~keep_a, after_a, one),
        np.where(equal & keep_a, after_b, other),
    )
