"""Summaries of values in cells agree with a computation over every element."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.watch.picture.value_cells import (
    BINS,
    INFINITE,
    MASKED,
    MOST_CELLS,
    NAN,
    _histogram,
    fold,
)

FLOATS = st.one_of(
    st.floats(-1e6, 1e6), st.sampled_from([float("nan"), float("inf"), 1.7e308, -1.7e308])
)


@given(st.data())
@settings(max_examples=80)
def test_cells_against_every_element(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 4, 8, 32]), min_size=2, max_size=3)))
    size = int(np.prod(shape))
    few = data.draw(st.lists(FLOATS, min_size=1, max_size=20))
    values = np.resize(np.array(few, np.float64), shape)
    mask = None
    if data.draw(st.booleans()):
        some = data.draw(st.lists(st.booleans(), min_size=1, max_size=7))
        mask = np.resize(np.array(some, np.bool_), shape)
    rows, columns, cells = fold(values, mask)
    assert rows * columns == len(cells) <= MOST_CELLS
    json.dumps(cells, allow_nan=False)
    matrix = values.reshape(-1, shape[-1])
    shown = np.ones(shape, np.bool_) if mask is None else mask
    own: list[list[float]] = [[] for _ in cells]
    for n in range(size):
        row, column = divmod(n, shape[-1])
        cell = row * rows // matrix.shape[0] * columns + column * columns // shape[-1]
        if shown.reshape(-1)[n]:
            own[cell].append(values.reshape(-1)[n])
    for folded, elements in zip(cells, own, strict=True):
        check(folded, elements)


def check(cell: Any, elements: list[float]) -> None:
    if not elements:
        assert cell == MASKED
    elif any(np.isnan(elements)):
        assert cell == NAN
    elif any(np.isinf(elements)):
        assert cell == INFINITE
    elif max(map(abs, elements)) < 1e100:
        mean = sum(elements) / len(elements)
        scale = max(map(abs, elements))
        assert cell == pytest.approx(mean, rel=1e-3, abs=1e-9 * scale + 1e-12)
    else:
        assert isinstance(cell, float)


@pytest.mark.parametrize("size", [1, 2, 16, 128, 256, 1024, 65536])
def test_vectors_are_cut_into_rows(size: int) -> None:
    rows, columns, cells = fold(np.arange(size, dtype=np.float64), None)
    assert rows * columns == len(cells) == min(size, MOST_CELLS)
    assert cells == sorted(cells)  # in the order of the lanes


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=30))
@settings(max_examples=80)
def test_histograms_count_every_element(values: list[float]) -> None:
    finite = np.array(values)
    low, high = float(finite.min()), float(finite.max())
    if low == high:
        return
    counts, _ = _histogram(finite, low, high, False)
    assert sum(counts) == len(values)
    assert counts[0] >= 1
    assert counts[-1] >= 1


@given(st.lists(st.integers(-(2**50), 2**50), min_size=2, max_size=30))
@settings(max_examples=80)
def test_bins_of_integers_cover_equally_many_integers(values: list[int]) -> None:
    finite = np.array(values, np.float64)
    low, high = float(finite.min()), float(finite.max())
    if low == high:
        return
    counts, width = _histogram(finite, low, high, True)
    assert width == int(width) >= 1
    assert len(counts) <= BINS + 1
    expected = [0] * len(counts)
    for value in values:
        expected[min((value - int(low)) // int(width), len(counts) - 1)] += 1
    assert counts == expected


def test_a_histogram_of_consecutive_integers_has_no_gaps() -> None:
    counts, width = _histogram(np.arange(64.0), 0.0, 63.0, True)
    assert (set(counts[:-1]), width) == ({3}, 3.0)
    assert sum(counts) == 64
