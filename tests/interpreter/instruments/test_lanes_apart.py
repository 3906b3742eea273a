"""Tests that exactly the lanes of a store that share an element are counted, for all strides."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import torch
import triton
import triton.language as tl
from hypothesis import example, given, settings
from hypothesis import strategies as st
from observing import EVERYTHING, observe, part_of

from ttools.interpreter.emit.instruments import lanes_apart

_ROWS, _COLUMNS, _FURTHEST = 4, 16, 20
_MIDDLE = (_ROWS + _COLUMNS) * _FURTHEST
_STEPS = st.one_of(st.integers(-5, 5), st.integers(-_FURTHEST, _FURTHEST))


@triton.jit(do_not_specialize=["row_step", "step", "rows", "columns", "below"])
def _put(o_ptr, row_step, step, rows, columns, below, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    i, j = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    active = (i < rows) & (j < columns) & (j >= below)
    tl.store(o_ptr + i * row_step + j * step, i * COLUMNS + j, mask=active)


@triton.jit(do_not_specialize=["step", "columns", "below"])
def _put_row(o_ptr, step, columns, below, COLUMNS: tl.constexpr):
    j = tl.arange(0, COLUMNS)
    tl.store(o_ptr + j * step, j, mask=(j < columns) & (j >= below))


def _overwritten(memory: torch.Tensor, launch: Any) -> int:
    everywhere = {"o_ptr": part_of(memory, 0, memory.numel())}
    observed = observe(launch, EVERYTHING, regions=everywhere)
    return sum(count.lanes for count in observed.counts if count.witness.test == "overwritten")


def _memory() -> torch.Tensor:
    return torch.full((2 * _MIDDLE + 1,), -1, dtype=torch.int32)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.tuples(_STEPS, _STEPS),
    rows=st.integers(-1, _ROWS + 1),
    columns=st.integers(-1, _COLUMNS + 1),
    below=st.integers(-1, _COLUMNS),
)
@example(steps=(16, 1), rows=4, columns=16, below=0)
@example(steps=(15, 1), rows=4, columns=16, below=0)
@example(steps=(15, 1), rows=4, columns=15, below=0)
@example(steps=(-1, 4), rows=4, columns=16, below=0)
@example(steps=(1, -3), rows=4, columns=16, below=0)
@example(steps=(1, 0), rows=4, columns=1, below=0)
@example(steps=(5, 0), rows=4, columns=16, below=0)
def test_shared_elements_of_a_tile_are_counted(
    steps: tuple[int, int], rows: int, columns: int, below: int
) -> None:
    memory = _memory()
    numbers = (*steps, rows, columns, below)
    count = _overwritten(memory, lambda: _put[(1,)](memory[_MIDDLE:], *numbers, _ROWS, _COLUMNS))
    elements = [
        i * steps[0] + j * steps[1]
        for i in range(min(rows, _ROWS))
        for j in range(max(below, 0), min(columns, _COLUMNS))
    ]
    assert count == len(elements) - len(set(elements))
    assert int((memory >= 0).sum()) == len(set(elements))


@settings(max_examples=30, deadline=None)
@given(step=_STEPS, columns=st.integers(-1, 65), below=st.integers(-1, 64))
@example(step=0, columns=64, below=63)
@example(step=0, columns=64, below=62)
def test_shared_elements_of_a_row_are_counted(step: int, columns: int, below: int) -> None:
    memory = torch.full((2 * 64 * _FURTHEST + 1,), -1, dtype=torch.int32)
    start = memory[64 * _FURTHEST :]
    count = _overwritten(memory, lambda: _put_row[(1,)](start, step, columns, below, 64))
    elements = [j * step for j in range(max(below, 0), min(columns, 64))]
    assert count == len(elements) - len(set(elements))


def test_rows_that_wrap_to_others_are_counted() -> None:
    """Store a fifth row 2**32 elements after the first, where 32-bit offsets wrap to the first."""
    memory = _memory()
    numbers = (2**30, 1, 5, _COLUMNS, 0)
    start = memory[_MIDDLE:]
    count = _overwritten(memory, lambda: _put[(1,)](start, *numbers, 2 * _ROWS, _COLUMNS))
    assert count == _COLUMNS
    assert start[:_COLUMNS].tolist() == list(range(4 * _COLUMNS, 5 * _COLUMNS))


def test_the_code_tests_whether_lanes_are_apart() -> None:
    """Check that code tests whether lanes are apart; else the tests above would not cover it."""
    tests: list[str | None] = []
    apart = lanes_apart._apart

    def logged_apart(*arguments: Any) -> str | None:
        tests.append(apart(*arguments))
        return tests[-1]

    with (
        patch.object(lanes_apart, "_apart", logged_apart),
        patch.dict("os.environ", TTOOLS_CACHE="off"),
    ):
        _put.device_caches.clear()
        _put_row.device_caches.clear()
        observe(
            lambda: _put[(1,)](_memory()[_MIDDLE:], 16, 1, 4, 16, 0, _ROWS, _COLUMNS), EVERYTHING
        )
        observe(lambda: _put_row[(1,)](_memory(), 2, 16, 0, 64), EVERYTHING)
    assert len(tests) == 2
    assert all(tests)
