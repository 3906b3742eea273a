"""Folding accesses into cells, against a naive account of every element."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.findings import Argument
from ttools.core.reports import tensor_map
from ttools.core.reports.tensor_map import COLLISION, SHARED, UNTOUCHED, Touch, fold

ARGUMENT = Argument(name="p", dtype="float32")

touches = st.builds(
    lambda start, size, program, writes: Touch(
        start=start, stop=start + size, program=program, writes=writes
    ),
    st.integers(-5, 60),
    st.integers(0, 20),
    st.integers(0, 4),
    st.booleans(),
)


def naive(elements: int, per_cell: int, accesses: list[Touch]) -> list[int]:
    cells = []
    for first in range(0, elements, per_cell):
        programs, collides = set(), False
        for element in range(first, min(first + per_cell, elements)):
            here = [touch for touch in accesses if touch.start <= element < touch.stop]
            users = {touch.program for touch in here}
            collides |= len(users) > 1 and any(touch.writes for touch in here)
            programs |= users
        code = SHARED if len(programs) > 1 else next(iter(programs), UNTOUCHED)
        cells.append(COLLISION if collides else code)
    return cells


@given(elements=st.integers(0, 60), accesses=st.lists(touches, max_size=6), data=st.data())
def test_cells_agree_with_elements(
    elements: int, accesses: list[Touch], data: st.DataObject
) -> None:
    limits = st.integers(1, 4)
    with pytest.MonkeyPatch.context() as patch:  # small limits, so that cells hold several elements
        patch.setattr(tensor_map, "ROWS", data.draw(limits))
        patch.setattr(tensor_map, "COLUMNS", data.draw(limits))
        folded = fold("k", ARGUMENT, elements, accesses)
        assert len(folded.cells) <= tensor_map.ROWS
        assert all(len(row) <= tensor_map.COLUMNS for row in folded.cells)
    flat = [code for row in folded.cells for code in row]
    assert flat == naive(elements, folded.elements_per_cell, accesses)
    assert folded.collisions == flat.count(COLLISION)
    assert set(folded.sharers) >= {cell for cell, code in enumerate(flat) if code == COLLISION}


def test_large_storages_fit() -> None:
    folded = fold("k", ARGUMENT, 10**9, [Touch(start=0, stop=10**9, program=7, writes=True)])
    assert (len(folded.cells), len(folded.cells[0])) == (64, 512)
    assert {code for row in folded.cells for code in row} == {7}
