"""Tests that a record of several runs is equivalent to one record for each run."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ttools.interpreter.abi.probe_layout import (
    REPEAT_COUNT_BITS,
    REPEAT_LANE_BITS,
    REPEAT_STRIDE_BITS,
    REPEATED,
)
from ttools.interpreter.runtime.access_log import access_dtype, footprints_of, split_log

extents = st.tuples(
    st.integers(1, (1 << REPEAT_COUNT_BITS) - 1).map(lambda n: n % 5 + 1),
    st.sampled_from([0, 1, 32, (1 << REPEAT_LANE_BITS) // 8]),
    st.sampled_from([4, 64, (1 << REPEAT_STRIDE_BITS) - 1]),
    st.integers(1, 4),
)


def logged(start, shape, site):
    """Return a record in the format of native code."""
    count, lanes, stride, run = shape
    row = np.zeros(1, access_dtype())
    row["start"], row["lane"], row["program"], row["epoch"] = start, 7, 3, 1
    row["end"] = start + (count - 1) * stride + run
    row["site"] = site | (REPEATED if count > 1 else 0)
    word = count | lanes << REPEAT_COUNT_BITS | stride << (REPEAT_COUNT_BITS + REPEAT_LANE_BITS)
    row["seq"] = np.array(word if count > 1 else 9, np.uint64).view(np.int64)
    return row


@given(st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 99), extents), max_size=5))
def test_each_run_becomes_a_record(rows):
    parts = [logged(start, shape, site) for start, site, shape in rows]
    log = np.concatenate([np.zeros(0, access_dtype()), *parts])
    before = log.copy()
    expected = [
        (
            start + n * stride,
            start + n * stride + run,
            3,
            0 if count > 1 else 9,
            site,
            7 + n * lanes,
        )
        for start, site, (count, lanes, stride, run) in rows
        for n in range(count)
    ]
    footprints = footprints_of(log)
    assert [tuple(row)[:6] for row in footprints.runs().tolist()] == expected
    assert np.array_equal(log, before)
    assert footprints.count.tolist() == [count for _, _, (count, *_) in rows]


#: Tiles of a small matrix, which overlap, are adjacent or leave gaps.
tiles = st.tuples(
    st.integers(0, 40),
    st.integers(1, 4),
    st.just(0),
    st.sampled_from([4, 8, 16]),
    st.integers(1, 20),
)


@given(st.lists(tiles, min_size=1, max_size=12))
def test_spans_cover_what_the_runs_cover(rows):
    log = np.concatenate([logged(start, tuple(shape), 0) for start, *shape in rows])
    footprints = footprints_of(log)
    covered = {at for row in footprints.runs() for at in range(row["start"], row["end"])}
    start, end = footprints.spans()
    assert (start < end).all()
    assert {at for a, b in zip(start, end, strict=True) for at in range(a, b)} == covered


def test_adjacent_tiles_are_one_span():
    columns = [logged(4096 + 32 * n, (16, 0, 256, 32), 0) for n in (3, 0, 7, 1, 2, 4, 6, 5)]
    start, end = footprints_of(np.concatenate(columns)).spans()
    assert (start.tolist(), end.tolist()) == ([4096], [4096 + 16 * 256])
    start, end = footprints_of(np.concatenate(columns[:5])).spans()
    assert len(start) == 32  # two runs in each row: 0 to 4, and 7


def test_synchronising_accesses_are_separate():
    sync = np.zeros(1, access_dtype())
    sync["site"], sync["seq"] = -1 - 2, 5
    footprints, syncs = split_log(np.concatenate([logged(64, (3, 4, 32, 8), 1), sync]))
    assert footprints.runs()["start"].tolist() == [64, 96, 128]
    assert (syncs["site"].tolist(), syncs["seq"].tolist()) == ([2], [5])
