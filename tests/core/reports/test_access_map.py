"""Tests of access maps, compared with a list of the accesses of every element."""

from __future__ import annotations

import tracemalloc
from collections import defaultdict
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.core.reports import access_map
from ttools.core.reports.access_map import KINDS, AccessMap

Access = tuple[int, int, int, int]


def naive(shape: tuple[int, ...], strides: tuple[int, ...], accesses: list[Access]) -> Any:
    """Return the programs that access an element, by kind and index, with repetitions.

    The second result is the number of accesses outside of the tensor.
    """
    index_of = {
        sum(i * s for i, s in zip(index, strides, strict=True)): index
        for index in product(*map(range, shape))
    }
    programs: defaultdict[str, defaultdict[tuple[int, ...], list[int]]]
    programs = defaultdict(lambda: defaultdict(list))
    outside = 0
    for start, stop, program, kind in accesses:
        for element in range(start, stop):
            if element in index_of:
                programs[KINDS[kind]][index_of[element]].append(program)
            else:
                outside += 1
    return programs, outside


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], list[Access], int]:
    """Draw a shape with non-overlapping strides, in any order and with gaps, and accesses."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    strides = [0] * len(shape)
    span = 1
    for axis in draw(st.permutations(range(len(shape)))):
        strides[axis] = span + draw(st.integers(0, 2))
        span += strides[axis] * (shape[axis] - 1)
    run = st.tuples(st.integers(-3, span + 3), st.integers(0, 12), st.integers(0, 6))
    rows = draw(st.lists(st.tuples(run, st.integers(0, 2)), max_size=12))
    accesses = [(at, at + length, program, kind) for (at, length, program), kind in rows]
    return shape, tuple(strides), accesses, draw(st.sampled_from([2, 3, 128]))


def cell_of(access_map_: AccessMap, index: tuple[int, ...]) -> int | None:
    """Return the cell of an element, by the documented rule; None if its slice is not drawn."""
    if len(access_map_.shape) == 1:
        row, column = divmod(index[0], access_map_.columns)
        slice_number = 0
    else:
        *leading, row, column = index
        number = 0
        for i, extent in zip(leading, access_map_.shape, strict=False):
            number = number * extent + i
        if number not in access_map_.slices:
            return None
        slice_number = access_map_.slices.index(number)
    row = row * access_map_.row_cells // access_map_.rows
    column = column * access_map_.column_cells // access_map_.columns
    return (slice_number * access_map_.row_cells + row) * access_map_.column_cells + column


@given(cases())
@settings(max_examples=150)
def test_cells_agree_with_every_element(
    case: tuple[tuple[int, ...], tuple[int, ...], list[Access], int],
) -> None:
    shape, strides, accesses, cells = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(access_map, "CELLS", cells)
        actual = AccessMap(shape, strides, followed=[2, 5])
        half = len(accesses) // 2
        for part in (accesses[:half], accesses[half:]):
            columns = np.array(part, np.int64).reshape(-1, 4).T
            actual.add(*columns)
    assert not actual.as_stored
    expected, outside = naive(shape, strides, accesses)
    assert actual.outside == outside
    data = actual.data()
    assert set(data["kinds"]) <= set(KINDS)
    for kind in KINDS:
        programs: defaultdict[int, list[int]] = defaultdict(list)
        for index, accessing in expected[kind].items():
            cell = cell_of(actual, index)
            if cell is not None:
                programs[cell] += accessing
        cells_of_kind = data["kinds"].get(kind)
        if cells_of_kind is None:
            assert not programs
            continue
        for cell in range(len(cells_of_kind["elements"])):
            assert cells_of_kind["elements"][cell] == len(programs[cell])
            assert cells_of_kind["low"][cell] == min(programs[cell], default=-1)
            assert cells_of_kind["high"][cell] == max(programs[cell], default=-1)
        for program in (2, 5):
            runs = data["own"].get(str(program), {}).get(kind, [])
            pairs = zip(runs[::2], runs[1::2], strict=True)
            own = {cell for at, length in pairs for cell in range(at, at + length)}
            assert own == {cell for cell, who in programs.items() if program in who}


def test_strides_that_overlap_are_shown_as_stored() -> None:
    overlapping = AccessMap((4, 4), (1, 1))
    overlapping.add(*(np.array([n]) for n in (0, 7, 3, 0)))
    data = overlapping.data()
    assert data["as_stored"]
    assert data["kinds"]["load"]["elements"] == [1] * 7
    assert overlapping.outside == 0


def test_a_tensor_of_any_size_takes_little_memory() -> None:
    tracemalloc.start()
    large = AccessMap((10_000, 10_000), (10_000, 1))
    start = np.arange(0, 100_000_000, 1_000, dtype=np.int64)
    for n in range(0, len(start), 10_000):
        part = start[n : n + 10_000]
        large.add(part, part + 1_000, part // 1_000, np.ones(len(part), np.int64))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20
    stored = large.data()["kinds"]["store"]
    assert sum(stored["elements"]) == 100_000_000
    assert max(stored["high"]) == 99_999
