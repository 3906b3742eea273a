"""Notes of findings on axes of the grid that a kernel does not read, and on steps of loops."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize


@triton.jit
def rows_only(x_ptr, y_ptr, N, B: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, B)
    tl.store(y_ptr + row * N + c, tl.load(x_ptr + row * N + c, mask=c < N), mask=c < N)


@triton.jit
def fills(y_ptr, tiles, STEP: tl.constexpr):
    for t in range(tl.program_id(0), tiles, STEP):
        tl.store(y_ptr + t * 16 + tl.arange(0, 16), t.to(tl.float32))  # type: ignore[attr-defined]


@triton.jit
def fills_while(y_ptr, tiles, STEP: tl.constexpr):
    t = tl.program_id(0)
    while t < tiles:
        tl.store(y_ptr + t * 16 + tl.arange(0, 16), t.to(tl.float32))
        t += STEP if STEP else tl.num_programs(0)


@triton.jit
def fills_triangle(y_ptr, tiles):
    for t in range(tl.program_id(0), tiles):
        tl.store(y_ptr + t * 16 + tl.arange(0, 16), t.to(tl.float32))  # type: ignore[attr-defined]


def notes(kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> set[str]:
    """Return the notes of findings other than those on single elements."""
    with sanitize() as report:
        y = torch.empty(160)
        kernel[grid](*arguments, y, *constants.pop("more", ()), **constants)
        y.sum()
    every = {note for finding in report.findings for note in finding.notes}
    return {note for note in every if "program_id" in note or "steps by" in note}


def test_an_axis_that_is_not_read() -> None:
    text = "the kernel does not read program_id(1), and the grid has 2 programs along axis 1"
    x = torch.ones(160)
    assert notes(rows_only, (9, 2), x, more=(17,), B=16) == {text}
    assert notes(rows_only, (9, 1), x, more=(17,), B=16) == set()


@pytest.mark.parametrize("kernel", [fills, fills_while])
@pytest.mark.parametrize("step", [4, 2])
def test_a_step_that_is_not_the_number_of_programs(kernel: Any, step: int) -> None:
    (note,) = notes(kernel, (3,), more=(10,), STEP=step)
    assert f"steps by {step}, and the launch has 3 programs: step by num_programs" in note


def test_steps_that_are_right_have_no_note() -> None:
    assert notes(fills, (3,), more=(9,), STEP=3) == set()
    assert notes(fills_while, (3,), more=(9,), STEP=0) == set()
    assert notes(fills_triangle, (3,), more=(9,)) == set()
