"""Records of several runs that are dropped without a look at their runs share no byte."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ttools.sanitizer.races import crowded


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
    return crowded(start, start + (count - 1) * stride + run, count, stride).tolist()


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
