"""Records that are dropped because their bounds are disjoint share no byte with other records."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ttools.interpreter.abi.probe_layout import REPEAT_COUNT_BITS, REPEAT_LANE_BITS, REPEATED
from ttools.interpreter.runtime.access_log import footprints_of
from ttools.sanitizer.races import (
    ACCESS,
    Site,
    disjoint_dense,
    disjoint_tiles,
    find_conflicts,
    maybe_overlapping,
    shared_lanes,
)
from ttools.sanitizer.races.access_classes import classes_of


@st.composite
def repeated(draw):
    """Return start, runs, stride and bytes per run of a record."""
    run = draw(st.sampled_from([1, 2, 4, 8]))
    count = draw(st.integers(1, 5))
    stride = draw(st.sampled_from([8, 8, 8, 12, 16])) if count > 1 else 0
    return draw(st.integers(0, 120)), count, max(stride, run), run


def bytes_of(start, count, stride, run):
    return {start + n * stride + byte for n in range(count) for byte in range(run)}


def crowd(records):
    start, count, stride, run = (
        np.array(column, np.int64) for column in zip(*records, strict=True)
    )
    return maybe_overlapping(start, start + (count - 1) * stride + run, count, stride).tolist()


@given(st.lists(repeated(), min_size=1, max_size=7))
def test_records_that_share_a_byte_are_kept(records):
    kept = set(crowd(records))
    for n, record in enumerate(records):
        others = (bytes_of(*other) for m, other in enumerate(records) if m != n)
        if any(bytes_of(*record) & other for other in others):
            assert n in kept


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 8), st.integers(0, 3), st.randoms())
def test_tiles_of_a_matrix_are_apart(rows, columns, run, gap, random):
    """Place tiles side by side and one below the other; the last tiles lack some rows."""
    pitch = columns * run + gap
    tiles = [
        (row * 3 * pitch + column * run, random.randint(1, 3), pitch, run)
        for row in range(rows)
        for column in range(columns)
    ]
    random.shuffle(tiles)
    assert crowd(tiles) == []
    assert len(crowd([*tiles, tiles[0]])) >= 2


tiles = st.tuples(st.integers(0, 90), st.integers(1, 4), st.just(16), st.sampled_from([1, 4, 4]))


@given(st.lists(tiles, min_size=2, max_size=8), st.integers(1, 2))
def test_tiles_of_one_stride(records, least):
    records = [(start, max(count, least), *rest) for start, count, *rest in records]
    kept = set(crowd(records))
    covered = [bytes_of(*record) for record in records]
    alone = [
        not any(mine & other for m, other in enumerate(covered) if m != n)
        for n, mine in enumerate(covered)
    ]
    assert all(n in kept for n in range(len(records)) if not alone[n])


runs = st.tuples(st.integers(0, 60), st.sampled_from([1, 1, 1, 2, 3, 9]))


@given(st.lists(st.lists(runs, min_size=1, max_size=4), min_size=1, max_size=4), st.integers(1, 5))
def test_runs_are_disjoint_only_if_no_byte_is_in_two(parts, scale):
    # Elements have `scale` bytes. The dense analysis handles neither runs of 9 elements nor
    # elements of 3 or 5 bytes.
    arrays = [scale * np.array(part) for part in parts]
    starts, sizes = np.concatenate(arrays).T.tolist()
    covered = [b for n, size in zip(starts, sizes, strict=True) for b in range(n, n + size)]
    are_disjoint = disjoint_dense(
        [(part[:, 0], part[:, 1]) for part in arrays],
        (min(starts), max(starts)),
        min(sizes),
        max(sizes),
    )
    apart = len(set(covered)) == len(covered)
    looked_at = scale in (1, 2, 4) and max(sizes) < 9 * scale and min(sizes) == scale
    close = max(starts) - min(starts) < 8 * scale * len(starts)
    assert are_disjoint == apart if looked_at and close else are_disjoint <= apart


#: Site, program, first byte, runs and bytes per run; all records with several runs have one stride.
logged_rows = st.tuples(
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 30),
    st.integers(1, 4),
    st.sampled_from([1, 2, 4, 4, 4]),
)
kinds = st.lists(st.sampled_from(["load", "store", "atomic"]), min_size=4, max_size=4)


def log_of(rows, stride):
    """Return the log of a launch without synchronisation, in the format of native code."""
    log = np.zeros(len(rows), ACCESS)
    for row, (site, program, start, count, run) in zip(log, rows, strict=True):
        row["start"], row["end"] = start, start + (count - 1) * stride + run
        row["program"] = program
        row["site"] = site | (REPEATED if count > 1 else 0)
        word = count | stride << (REPEAT_COUNT_BITS + REPEAT_LANE_BITS)
        row["seq"] = word if count > 1 else 0
    return log


@given(
    st.lists(logged_rows, min_size=1, max_size=7),
    kinds,
    st.booleans(),
    st.sampled_from([4, 8, 12, 13, 16]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([0, 0, 64, 1000]),
)
def test_disjoint_tiles_conflict_with_nothing(rows, kinds, scalar, stride, unit, apart):
    """Skip the analysis only if it would have found no pair and no shared lanes."""
    rows = [(site, program, start * unit + site * apart, *of) for site, program, start, *of in rows]
    sites = [Site(kind, size=1, shape=() if scalar else (4,)) for kind in kinds]
    log = log_of(rows, stride)
    if disjoint_tiles(log, classes_of(sites)):
        records = footprints_of(log).runs()
        assert find_conflicts(records, sites, warps=1) == []
        assert shared_lanes(records, sites, range(len(sites))) == []


@given(
    st.integers(1, 4),
    st.integers(2, 4),
    st.integers(1, 8),
    st.integers(2, 5),
    st.integers(0, 3),
    st.randoms(),
)
def test_tiles_of_a_matrix_are_disjoint(rows, columns, run, height, cut, random):
    """Cut off the last column and the last row of tiles."""
    stride = columns * run - min(cut, run - 1)
    tiles = [
        (0, n, row * height * stride + column * run, height, min(run, stride - column * run))
        for n, (row, column) in enumerate(np.ndindex(rows, columns))
    ]
    random.shuffle(tiles)
    store = classes_of([Site("store", size=1)])
    assert disjoint_tiles(log_of(tiles, stride), store)
    again = (0, rows * columns, tiles[0][2], 1, 1)
    assert not disjoint_tiles(log_of([*tiles, again], stride), store)


def test_tensors_are_analysed_separately():
    """Store rows to one tensor, single elements to another; all programs only load a third one."""
    rows = [(0, n, 4096 * n, 1, 4096) for n in range(20)]
    rows += [(1, n, (1 << 20) + 4 * n, 1, 4) for n in range(20)]
    rows += [(2, n, 1 << 30, 1, 64) for n in range(20)]
    sites = [Site("store", 4, (1024,)), Site("store", 4), Site("load", 4, (16,))]
    assert disjoint_tiles(log_of(rows, 0), classes_of(sites))
    assert not disjoint_tiles(log_of([*rows, (1, 5, 1 << 30, 1, 4)], 0), classes_of(sites))
    assert not disjoint_tiles(log_of([*rows, (1, 5, 4, 1, 4)], 0), classes_of(sites))


def test_records_far_apart_are_not_analysed_densely():
    store = classes_of([Site("store", size=4)])
    assert not disjoint_tiles(log_of([(0, 0, 0, 1, 4), (0, 1, 1 << 40, 1, 4)], 0), store)
    assert not disjoint_tiles(log_of([(0, 0, 0, 1, 0), (0, 1, 4, 1, 0)], 0), store)
