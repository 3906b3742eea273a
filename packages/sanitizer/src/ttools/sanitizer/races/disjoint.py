"""Which repeated records may share a byte with another one, without looking at their runs.

A repeated record is runs of adjacent bytes of one length that follow each other by a *stride*: the
rows of a tile. Tiles beside each other lie in the same range of addresses and still apart: modulo
their common stride they do. Knows nothing of programs, kinds of access or order.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from ttools.interpreter.runtime.support.native_tiles import (
    LEFT_OUT,
    Bands,
    Spread,
    lie_apart,
    survey,
)
from ttools.sanitizer.races.classes import MAY_CONFLICT
from ttools.sanitizer.races.keys import order_by
from ttools.sanitizer.races.overlap import cluster_heads, overlapping
from ttools.sanitizer.races.records import Bools, Ints, Records

#: Memory with more room than this for each record is not looked at slot by slot.
_SPARSE = 16
#: Nor are records that are longer than so many of the shortest.
_LONGEST = 8
#: So many tiles beside each other, at most, are looked at column by column.
_MOST_COLUMNS = 16


def disjoint_dense(
    runs: Sequence[tuple[Ints, Ints]], reach: tuple[int, int], unit: int, longest: int
) -> bool:
    """Whether records of one run each share no byte, where that is seen in little memory and time.

    False says nothing: the runs may be of a kind that is not looked at here.

    Args:
        runs: first bytes and numbers of bytes of the records, part by part.
        reach: the lowest and the highest first byte.
        unit: bytes of the shortest run.
        longest: bytes of the longest.
    """
    low, high = reach
    slots = (high - low + longest - 1) // unit + 1
    count = sum(len(start) for start, _ in runs)
    if unit & (unit - 1) or longest > _LONGEST * unit or slots > _SPARSE * count:
        return False
    taken, elements = np.zeros(slots, np.bool_), 0
    for start, run in runs:
        offset = start - low
        if int(np.bitwise_or.reduce(offset | run)) & (unit - 1):
            return False
        slot = offset >> (unit.bit_length() - 1)
        while len(slot):
            taken[slot] = True
            elements += len(slot)
            longer = run > unit
            slot, run = slot[longer] + 1, run[longer] - unit
    return int(np.count_nonzero(taken)) == elements


def disjoint_tiles(log: Records, classes: Ints) -> bool:
    """Whether logged accesses are seen to conflict with none, as those of tiles side by side.

    Sites whose addresses lie in a common range are looked at together, if their classes may
    conflict. Their memory is divided into bands of as many strides as a record has runs at most,
    and a band into columns of a run's length. A record that begins in the first stride of a band,
    where a column begins, stays in both; so all are apart if no two have one band and column. False
    says nothing.

    Args:
        log: as native code writes it; accesses that are repeated are one record.
        classes: of each site.
    """
    spreads = survey(log, len(classes))
    if spreads is None:
        return False
    rows, columns = [LEFT_OUT] * len(classes), 0
    for group in _groups(spreads):
        if not MAY_CONFLICT[int(np.bitwise_or.reduce(classes[group]))]:
            continue
        bands = _bands([spreads[n] for n in group], columns)
        if bands is None:
            return False
        last = max(spreads[n].high for n in group)
        columns += ((last - bands.low) // bands.band + 1) * bands.columns
        if columns > _SPARSE * len(log):
            return False
        for n in group:
            rows[n] = bands
    return not columns or lie_apart(log, rows, columns)


def _groups(spreads: Sequence[Spread]) -> Iterator[list[int]]:
    """Sites that have records, those together whose addresses lie in a common range."""
    group: list[int] = []
    end = 0
    used = (n for n, each in enumerate(spreads) if each.end)
    for n in sorted(used, key=lambda n: spreads[n].low):
        if group and spreads[n].low >= end:
            yield group
            group = []
        group.append(n)
        end = max(end, spreads[n].end)
    if group:
        yield group


def _bands(spreads: Sequence[Spread], first: int) -> Bands | None:
    """How the memory of some sites is divided; None if their records are of several strides."""
    strides = {each.step for each in spreads if each.most > 1}
    if len(strides) > 1 or None in strides:
        return None
    longest, most = max(each.longest for each in spreads), max(each.most for each in spreads)
    stride = strides.pop() if strides else longest
    assert stride is not None
    if not 0 < longest <= stride:
        return None
    low = min(each.low for each in spreads)
    return Bands(low, most * stride, stride, longest, -(-stride // longest), first)


def maybe_overlapping(start: Ints, end: Ints, count: Ints, stride: Ints) -> Ints:
    """The records that are not seen to be apart from all others, in the order given.

    Args:
        start: of the first run.
        end: of the last run.
        count: runs of each record.
        stride: from the beginning of one run to that of the next, at least a run's length; of any
            value where there is one run.
    """
    if len(start) < 2 or np.all(start[1:] >= end[:-1]):
        return np.empty(0, np.int64)
    if _in_columns(start, end, count, stride):
        return np.empty(0, np.int64)
    order = order_by(start)
    order = order[overlapping(start[order], end[order])]
    if len(order) == 0 or int(count.max()) == 1:
        return np.sort(order)
    start, end, count, stride = start[order], end[order], count[order], stride[order]
    stride = np.where(count > 1, stride, 0)
    return np.sort(order[~_apart(start, end, end - start - (count - 1) * stride, stride)])


def _in_columns(start: Ints, end: Ints, count: Ints, stride: Ints) -> bool:
    """Whether all records are seen to share no byte, as the tiles of one matrix: the usual case.

    All have one stride, modulo which they lie in few columns that are apart; in each of these, one
    record ends before the next begins.
    """
    step = int(stride[0])
    if step <= 0 or int(count.min()) < 2 or np.any(stride != step):
        return False
    offset = (start - start.min()) % step
    ordered = np.sort(offset)
    columns = ordered[np.flatnonzero(np.diff(ordered, prepend=-1))]
    longest = int((end - start - (count - 1) * step).max())
    if len(columns) > _MOST_COLUMNS or np.any(np.diff(columns, append=step) < longest):
        return False
    for column in columns:
        chosen = np.flatnonzero(offset == column)
        first, last = start[chosen], end[chosen]
        # Where each next start comes after as many ends, no two records have begun and not ended.
        if np.any(first[1:] < last[:-1]) and np.any(np.sort(first)[1:] < np.sort(last)[:-1]):
            return False
    return True


def _apart(start: Ints, end: Ints, run: Ints, stride: Ints) -> Bools:
    """Whether the records of each cluster are seen to share no byte, sorted by start.

    All of a cluster have one stride, or one run, and modulo that stride any two runs are equal
    or apart. Of equal ones, one record ends before the next begins.
    """
    heads = cluster_heads(start, end)
    length = np.diff(np.append(heads, len(start)))
    cluster = np.repeat(np.arange(len(heads)), length)
    common = np.repeat(np.maximum.reduceat(stride, heads), length)
    offset = (start - np.repeat(start[heads], length)) % np.maximum(common, 1)
    good = ((stride == 0) | (stride == common)) & (offset + run <= common)
    order = order_by(cluster, offset)  # equal offsets by start: ties keep their order
    offset, run, start, end = offset[order], run[order], start[order], end[order]
    gap = np.diff(offset)
    apart = (gap >= run[:-1]) | ((gap == 0) & (run[1:] == run[:-1]) & (start[1:] >= end[:-1]))
    # Sorting moves no record to another cluster.
    good[1:] &= apart | (cluster[1:] != cluster[:-1])
    return np.repeat(np.logical_and.reduceat(good, heads), length)
