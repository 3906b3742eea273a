"""Fast proofs that repeated access records share no byte, without expanding their runs.

A repeated record represents the rows of a tile: runs of adjacent bytes of equal length whose starts
differ by a *stride*. The records of neighbouring tiles of a matrix cover overlapping address
ranges, but they share no byte if their offsets modulo the common stride do not overlap. Example for
a matrix with a stride of 64 bytes:

    record A: 4 runs of 16 bytes from address 0     bytes 0-15 modulo 64
    record B: 4 runs of 16 bytes from address 16    bytes 16-31 modulo 64

The address ranges [0, 208) and [16, 224) overlap, but the records do not. Each function is
conservative: it never excludes a record that shares a byte, but may keep one that shares none.
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
from ttools.sanitizer.races.access_classes import MAY_CONFLICT
from ttools.sanitizer.races.integer_columns import order_by
from ttools.sanitizer.races.overlap import cluster_heads, overlapping
from ttools.sanitizer.races.records import Bools, Ints, Records

#: Largest ratio of slots (or columns) of memory to records up to which a table of slots is used.
_SPARSE = 16
#: Largest ratio of the longest run to the shortest run up to which a table of slots is used.
_LONGEST = 8
#: Largest number of neighbouring tiles that `_in_columns` compares column by column.
_MOST_COLUMNS = 16


def disjoint_dense(
    runs: Sequence[tuple[Ints, Ints]], reach: tuple[int, int], unit: int, longest: int
) -> bool:
    """Return True if it is proved that records of one run each share no byte.

    The memory is divided into slots of the shortest run's size. False means that the runs overlap,
    or that a table of slots would be too large or cannot represent them.

    Args:
        runs: Pairs of arrays, one pair for each part of the records: their first bytes and their
            sizes.
        reach: Lowest and highest first byte of all records.
        unit: Size of the shortest run in bytes.
        longest: Size of the longest run in bytes.
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
    """Return True if it is proved that no two logged accesses conflict.

    Sites with overlapping address ranges are analysed together, if their classes may conflict.
    Their memory is divided into bands, and each band into columns. A band is as long as the stride
    times the largest number of runs of a record; a column is as wide as the longest run. A record
    that begins in the first stride of a band, at the start of a column, stays in this band and
    column. Therefore, no records overlap if each has a different pair of band and column. False
    means that the accesses may conflict.

    Args:
        log: Access records as native code writes them; a repeated access is one record.
        classes: Class of each site.
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
    """Yield groups of the sites with records; sites whose address ranges overlap share a group."""
    group: list[int] = []
    end = 0
    used = (n for n, spread in enumerate(spreads) if spread.end)
    for n in sorted(used, key=lambda n: spreads[n].low):
        if group and spreads[n].low >= end:
            yield group
            group = []
        group.append(n)
        end = max(end, spreads[n].end)
    if group:
        yield group


def _bands(spreads: Sequence[Spread], first: int) -> Bands | None:
    """Return the bands and columns for some sites, or None if their records differ in stride."""
    strides = {spread.step for spread in spreads if spread.most > 1}
    if len(strides) > 1 or None in strides:
        return None
    longest = max(spread.longest for spread in spreads)
    most = max(spread.most for spread in spreads)
    stride = strides.pop() if strides else longest
    assert stride is not None
    if not 0 < longest <= stride:
        return None
    low = min(spread.low for spread in spreads)
    return Bands(low, most * stride, stride, longest, -(-stride // longest), first)


def maybe_overlapping(start: Ints, end: Ints, count: Ints, stride: Ints) -> Ints:
    """Return the ascending indices of the records that may share a byte with another record.

    Args:
        start: First byte of the first run of each record.
        end: End of the last run of each record.
        count: Number of runs of each record.
        stride: Distance in bytes between the starts of consecutive runs. It is at least the length
            of a run, and is ignored for a record of one run.
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
    """Return True if all records provably share no byte, as for the tiles of one matrix.

    The proof succeeds if all records have the same stride, their offsets modulo the stride form a
    few columns that do not overlap, and in each column one record ends before the next begins.
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
        # Intervals are disjoint if, after starts and ends are sorted separately, the (i+1)th start
        # is not less than the ith end.
        if np.any(first[1:] < last[:-1]) and np.any(np.sort(first)[1:] < np.sort(last)[:-1]):
            return False
    return True


def _apart(start: Ints, end: Ints, run: Ints, stride: Ints) -> Bools:
    """Return, for each record, whether the records of its cluster provably share no byte.

    The records are sorted by start. The proof succeeds if all records of a cluster have one run or
    the same stride, any two of their runs are equal or disjoint modulo that stride, and among
    records with equal runs, each ends before the next begins.
    """
    heads = cluster_heads(start, end)
    length = np.diff(np.append(heads, len(start)))
    cluster = np.repeat(np.arange(len(heads)), length)
    common = np.repeat(np.maximum.reduceat(stride, heads), length)
    offset = (start - np.repeat(start[heads], length)) % np.maximum(common, 1)
    good = ((stride == 0) | (stride == common)) & (offset + run <= common)
    order = order_by(cluster, offset)  # ties keep their order, so equal offsets are by start
    offset, run, start, end = offset[order], run[order], start[order], end[order]
    gap = np.diff(offset)
    apart = (gap >= run[:-1]) | ((gap == 0) & (run[1:] == run[:-1]) & (start[1:] >= end[:-1]))
    # Sorting moves no record to another cluster.
    good[1:] &= apart | (cluster[1:] != cluster[:-1])
    return np.repeat(np.logical_and.reduceat(good, heads), length)
