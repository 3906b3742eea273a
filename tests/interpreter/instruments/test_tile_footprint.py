"""Tests that the footprint of a whole tile is the union of the footprints of its chunks."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from access_forms import FORMS, fresh_memory
from hypothesis import example, given, settings
from hypothesis import strategies as st
from observing import Observed, observe

from ttools.interpreter.abi.module import Instruments
from ttools.interpreter.emit.instruments import access
from ttools.interpreter.emit.instruments.footprint import record_tile
from ttools.interpreter.emit.instruments.whole_tile import WholeTile

GUARDED = Instruments(guards=True, footprints=True)
#: Patterns whose tiles are logged as a whole, if nothing is outside.
AT_ONCE = ("contiguous", "tail", "tile", "tile_masked", "tile_transposed", "grid", "strided")
IN_CHUNKS = ("gather", "gather_masked", "modulo", "runtime_stride", "arbitrary_mask")

R, C, PROGRAMS, MIDDLE = 8, 32, 3, 2048
_NUMBERS = ["sp", "st", "s0", "r0", "r1", "c0", "c1", "turns"]


@triton.jit(do_not_specialize=_NUMBERS)
def rows_of(x_ptr, sp, st, s0, r0, r1, c0, c1, turns, R: tl.constexpr, C: tl.constexpr):
    p = tl.program_id(0)
    r, c = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    for turn in range(turns):
        at = x_ptr + p * sp + turn * st + r * s0 + c
        tl.store(at, 1.0, mask=(r >= r0) & (r < r1) & (c >= c0) & (c < c1))


def accesses(name: str, how: str, monkeypatch: pytest.MonkeyPatch, *, apart: bool) -> Observed:
    """Run the kernel of a pattern and return its logs.

    Args:
        name: Name of the pattern.
        how: Kind of access.
        monkeypatch: Fixture of pytest.
        apart: If True, log every tile in chunks.
    """
    logged_whole: list[bool] = []

    def log_result(*arguments: object) -> WholeTile:
        result = record_tile(*arguments)  # type: ignore[arg-type]
        logged_whole.append(result.logged)
        return dataclasses.replace(result, logged=False) if apart else result

    def in_chunks(*arguments: object) -> WholeTile:
        logged_whole.append(False)
        return arguments[-1]  # type: ignore[return-value]

    monkeypatch.setattr(access, "record_tile", in_chunks if apart else log_result)
    # A different text prevents the use of a compiled kernel.
    form = dataclasses.replace(FORMS[name], index=f"{FORMS[name].index} + {41 + apart} * 0")
    memory, out = MEMORY[how], form.empty_out()
    observed = observe(lambda: form.launch(how, memory, out), GUARDED)
    assert any(logged_whole) == (name in AT_ONCE and not apart)
    return observed


MEMORY = {how: fresh_memory(how) for how in ("store", "atomic")}


@pytest.mark.parametrize("how", ["store", "atomic"])
@pytest.mark.parametrize("name", [*AT_ONCE, *IN_CHUNKS])
def test_a_whole_tile_is_logged_like_its_chunks(
    name: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = accesses(name, how, monkeypatch, apart=False)
    chunks = accesses(name, how, monkeypatch, apart=True)
    assert len(at_once.accesses)
    assert at_once.lanes() == chunks.lanes()
    assert at_once.bytes_of(how) == chunks.bytes_of(how)
    # Chunks of atomics follow rows, but the log of a tile follows the order of memory.
    assert len(at_once.accesses) <= len(chunks.accesses)


def inside(low: int, high: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(low - 1, high), st.integers(low, high + 1))


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(st.integers(-40, 200), st.integers(-40, 300), st.integers(-40, 60)),
    inside(0, R),
    inside(0, C),
    st.integers(0, 3),
)
@example((R * C, 0, C), (0, R), (0, C), 2)  # contiguous rows
@example((1200, R * 48, 48), (0, R), (0, C), 3)  # contiguous tiles
@example((500, 100, 0), (0, R), (3, C), 1)
@example((500, 100, 40), (2, 3), (0, C), 1)
@example((500, 100, 40), (2, 4), (0, C), 1)
@example((500, 100, 40), (5, 5), (0, C), 1)
def test_rows(
    steps: tuple[int, int, int], rows: tuple[int, int], columns: tuple[int, int], turns: int
) -> None:
    x = torch.zeros(3 * MIDDLE)
    view = x[MIDDLE:]
    observed = observe(
        lambda: rows_of[(PROGRAMS,)](view, *steps, *rows, *columns, turns, R=R, C=C), GUARDED
    )
    p, turn, r, c = np.ogrid[:PROGRAMS, :turns, :R, :C]
    element = p * steps[0] + turn * steps[1] + r * steps[2] + c
    active = (r >= rows[0]) & (r < rows[1]) & (c >= columns[0]) & (c < columns[1])
    program, lane = p + 0 * element, r * C + c + 0 * element
    active = active & (element == element)
    expected = set(
        zip(program[active].tolist(), element[active].tolist(), lane[active].tolist(), strict=True)
    )
    actual = {
        (program, (address - view.data_ptr()) // 4, lane)
        for _, program, address, lane in observed.lanes()
    }
    assert actual == expected
