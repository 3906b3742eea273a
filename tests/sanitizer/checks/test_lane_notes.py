"""Lanes of one store that share elements: errors for different values, notes for equal values."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.findings.findings import FindingsError
from ttools.sanitizer import sanitize


@triton.jit
def pooled(x_ptr, y_ptr, m, n, WIDTH: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    inside = (i < m) & (j < n)
    x = tl.load(x_ptr + i * n + j, mask=inside, other=0.0)
    tl.store(y_ptr + (i * n + j) // WIDTH, x, mask=inside)


@pytest.mark.parametrize(("rows", "columns"), [(40, 3), (5, 3), (1, 2), (3, 1)])
def test_results_do_not_depend_on_the_size_of_tiles(rows: int, columns: int) -> None:
    tile = {"M": triton.next_power_of_2(rows), "N": triton.next_power_of_2(columns)}
    count = rows * columns
    for width in (1, 2):
        for equal in (False, True):
            x = torch.ones(count) if equal else torch.arange(count) + 1.0
            with sanitize() as report:
                pooled[(1,)](x, torch.zeros(count), rows, columns, WIDTH=width, **tile)
            reported = [(f.kind, f.severity, f.count) for f in report.findings]
            severity = "note" if equal else "error"
            shared = [("overlapping_store", severity, count // 2)] if width == 2 else []
            assert reported == shared, (width, equal)


def test_a_note_can_fail_a_run() -> None:
    with sanitize() as report:
        pooled[(1,)](torch.ones(16), torch.zeros(16), 4, 4, WIDTH=2, M=4, N=4)
    (note,) = report.findings
    assert "always with the same values" in note.message
    assert "other data" in note.notes[0]
    report.raise_for_failures("warning")
    with pytest.raises(FindingsError):
        report.raise_for_failures("note")


@triton.jit
def shifted_in_place(x_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    tl.debug_barrier()
    tl.store(x_ptr + i * 0, x)


def test_a_store_is_reported_although_a_second_run_stores_equal_values() -> None:
    with sanitize() as report:
        shifted_in_place[(1,)](torch.tensor([1.0, 2.0]), B=2)
    assert [(f.kind, f.severity) for f in report.findings] == [("overlapping_store", "error")]


@triton.jit
def broadcast(y_ptr, s_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y_ptr + i // 4, tl.full((B,), 0, tl.float32))
    tl.store(y_ptr + B + i * 0, tl.load(s_ptr))


def test_one_value_for_all_lanes_is_not_reported() -> None:
    with sanitize() as report:
        broadcast[(1,)](torch.zeros(64), torch.ones(1), B=32)
    assert report.findings == []


@triton.jit
def revisited(y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    for k in range(n):
        tl.store(y_ptr + k + i, (k + i) * 1.0)
        tl.debug_barrier()


def test_later_stores_to_the_same_element_are_separate() -> None:
    with sanitize() as report:
        revisited[(1,)](torch.zeros(64), 4, B=32)
    assert report.findings == []
