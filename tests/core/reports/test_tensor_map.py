"""Tests of folding accesses into cells, compared with a naive evaluation of every element."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.reports import tensor_map
from ttools.core.reports.tensor_map import COLLISION, SHARED, TOUCH, UNTOUCHED, fold
from ttools.core.spec import ArgumentSpec, ObjectSpec

ARGUMENT = ArgumentSpec(name="p", value=ObjectSpec(type="float32"))

Touch = tuple[int, int, int, bool]
touches = st.builds(
    lambda start, size, program, writes: (start, start + size, program, writes),
    st.integers(-5, 60),
    st.integers(0, 20),
    st.integers(0, 12),
    st.booleans(),
)


def naive(elements: int, per_cell: int, accesses: list[Touch]) -> list[int]:
    cells = []
    for first in range(0, elements, per_cell):
        programs, collides = set(), False
        for element in range(first, min(first + per_cell, elements)):
            touching = [touch for touch in accesses if touch[0] <= element < touch[1]]
            users = {touch[2] for touch in touching}
            collides |= len(users) > 1 and any(touch[3] for touch in touching)
            programs |= users
        code = SHARED if len(programs) > 1 else next(iter(programs), UNTOUCHED)
        cells.append(COLLISION if collides else code)
    return cells


def naive_users(elements: int, per_cell: int, accesses: list[Touch]) -> list[set[int]]:
    return [
        {
            program
            for start, stop, program, _ in accesses
            if max(start, first) < min(stop, first + per_cell, elements)
        }
        for first in range(0, elements, per_cell)
    ]


@given(elements=st.integers(0, 60), accesses=st.lists(touches, max_size=30), data=st.data())
def test_cells_agree_with_elements(
    elements: int, accesses: list[Touch], data: st.DataObject
) -> None:
    limits = st.integers(1, 4)
    with pytest.MonkeyPatch.context() as patch:  # small limits, so that cells hold several elements
        patch.setattr(tensor_map, "ROWS", data.draw(limits))
        patch.setattr(tensor_map, "COLUMNS", data.draw(limits))
        patch.setattr(tensor_map, "_CELLS_AT_ONCE", data.draw(st.sampled_from([1, 7, 1 << 20])))
        folded = fold("k", ARGUMENT, elements, np.array(accesses, TOUCH))
        assert len(folded.cells) <= tensor_map.ROWS
        assert all(len(row) <= tensor_map.COLUMNS for row in folded.cells)
    flat = [code for row in folded.cells for code in row]
    assert flat == naive(elements, folded.elements_per_cell, accesses)
    assert folded.collisions == flat.count(COLLISION)
    assert folded.sharers == {
        cell: tuple(sorted(programs)[:8])
        for cell, programs in enumerate(naive_users(elements, folded.elements_per_cell, accesses))
        if len(programs) > 1
    }


def test_large_storages_fit() -> None:
    folded = fold("k", ARGUMENT, 10**9, np.array([(0, 10**9, 7, True)], TOUCH))
    assert (len(folded.cells), len(folded.cells[0])) == (64, 512)
    assert {code for row in folded.cells for code in row} == {7}
