"""Records of several runs that are dropped without a look at their runs share no byte."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ttools.sanitizer.races import disjoint_dense, disjoint_grid, maybe_overlapping


@st.composite
def repeated(draw):
    """Start, runs, stride and bytes of a run."""
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
def test_whatever_shares_a_byte_is_kept(records):
    kept = set(crowd(records))
    for n, record in enumerate(records):
        others = (bytes_of(*other) for m, other in enumerate(records) if m != n)
        if any(bytes_of(*record) & other for other in others):
            assert n in kept


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 8), st.integers(0, 3), st.randoms())
def test_tiles_of_a_matrix_are_apart(rows, columns, run, gap, random):
    """Side by side and below each other, some rows of which are missing at the end."""
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
    # Elements of `scale` bytes; 9 of them are more than is looked at, as are 3 or 5 bytes.
    arrays = [scale * np.array(part) for part in parts]
    starts, sizes = np.concatenate(arrays).T.tolist()
    covered = [b for n, size in zip(starts, sizes, strict=True) for b in range(n, n + size)]
    found = disjoint_dense(
        [(part[:, 0], part[:, 1]) for part in arrays],
        (min(starts), max(starts)),
        min(sizes),
        max(sizes),
    )
    apart = len(set(covered)) == len(covered)
    looked_at = scale in (1, 2, 4) and max(sizes) < 9 * scale and min(sizes) == scale
    close = max(starts) - min(starts) < 8 * scale * len(starts)
    assert found == apart if looked_at and close else found <= apart


lattices = st.tuples(st.integers(0, 30), st.integers(1, 4), st.sampled_from([1, 2, 4, 4, 4]))


@given(
    st.lists(lattices, min_size=1, max_size=7),
    st.sampled_from([4, 8, 12, 13, 16]),
    st.sampled_from([1, 2, 4]),
)
def test_only_what_is_disjoint_is_a_disjoint_grid(records, stride, unit):
    start, count, run = (np.array(column) for column in zip(*records, strict=True))
    start = start * unit
    covered = [
        byte
        for each in zip(start.tolist(), count.tolist(), run.tolist(), strict=True)
        for byte in bytes_of(each[0], each[1], stride, each[2])
    ]
    if disjoint_grid(start, run, int(count.max()), stride):
        assert len(set(covered)) == len(covered)


@given(
    st.integers(1, 4),
    st.integers(2, 4),
    st.integers(1, 8),
    st.integers(2, 5),
    st.integers(0, 3),
    st.randoms(),
)
def test_tiles_of_a_matrix_are_a_disjoint_grid(rows, columns, run, height, cut, random):
    """The last column and the last row of tiles may be cut."""
    stride = columns * run - min(cut, run - 1)
    tiles = [
        (row * height * stride + column * run, min(run, stride - column * run))
        for row in range(rows)
        for column in range(columns)
    ]
    random.shuffle(tiles)
    start, length = np.array(tiles).T
    assert disjoint_grid(start, length, height, stride)
    assert not disjoint_grid(np.append(start, start[0]), np.append(length, 1), height, stride)


def test_records_far_apart_are_not_looked_at_place_by_place():
    assert not disjoint_grid(np.array([0, 1 << 40]), 4, 1, 0)
    assert not disjoint_grid(np.array([0, 4]), 0, 1, 0)
