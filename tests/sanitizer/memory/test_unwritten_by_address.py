"""Unwritten memory behind loaded pointers is found by its address, and tracked through copies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import triton
import triton.language as tl
from hypothesis import given, settings, strategies

from ttools.core.findings.findings import Finding
from ttools.sanitizer import sanitize

D = 8


@triton.jit
def pointer(table_ptr, n):
    return tl.load(table_ptr + n).to(tl.pointer_type(tl.float32))


@triton.jit
def sum_up(table_ptr, o_ptr, n, D: tl.constexpr):
    d = tl.arange(0, D)
    total = tl.zeros([D], tl.float32)
    for i in range(n):
        total += tl.load(pointer(table_ptr, i) + d)
    tl.store(o_ptr + d, total)


@triton.jit
def copy_each(from_ptr, to_ptr, n, D: tl.constexpr):
    p = tl.program_id(0)
    d = tl.arange(0, D)
    tl.store(pointer(to_ptr, p) + d, tl.load(pointer(from_ptr, p) + d, mask=d < n), mask=d < n)


@triton.jit
def gather_rows(table_ptr, o_ptr, R: tl.constexpr, D: tl.constexpr):
    r = tl.arange(0, R)
    d = tl.arange(0, D)
    rows = tl.load(table_ptr + r).to(tl.pointer_type(tl.float32))
    x = tl.load(rows[:, None] + d[None, :])
    tl.store(o_ptr + r[:, None] * D + d[None, :], x * 2)


@triton.jit
def write_then_read(table_ptr, o_ptr, D: tl.constexpr):
    d = tl.arange(0, D)
    x = pointer(table_ptr, tl.program_id(0)) + d
    tl.store(x, d.to(tl.float32))
    tl.store(o_ptr + tl.program_id(0) * D + d, tl.load(x) + 1)


def addresses(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.tensor([tensor.data_ptr() for tensor in tensors], dtype=torch.int64)


def partly_written(written: Sequence[bool]) -> torch.Tensor:
    tensor = torch.empty(D)
    tensor[torch.tensor(written)] = 1.0
    return tensor


def unwritten(findings: Sequence[Finding]) -> list[tuple[str, int]]:
    """Return the kernel and count of each finding, all of which concern unwritten memory."""
    assert {finding.kind for finding in findings} <= {"uninit_read"}
    return [(finding.kernel, finding.count) for finding in findings]


_TENSORS = strategies.lists(
    strategies.lists(strategies.booleans(), min_size=D, max_size=D), min_size=1, max_size=5
)


@settings(max_examples=15, deadline=None)
@given(_TENSORS)
def test_exactly_the_unwritten_elements_are_counted(tensors: list[list[bool]]) -> None:
    with sanitize() as report:
        table = addresses(kept := [partly_written(written) for written in tensors])
        sum_up[(1,)](table, torch.empty(D), len(kept), D=D)
    # The sum of a lane is stored once, however many of its summands are unwritten.
    count = int((~np.array(tensors).all(axis=0)).sum())
    assert unwritten(report.findings) == ([("sum_up", count)] if count else [])


def test_rows_of_a_tile_lead_to_several_tensors() -> None:
    rows = [[True] * D, [False] * D, [n < 3 for n in range(D)], [True] * D]
    with sanitize() as report:
        kept = [partly_written(row) for row in rows]
        gather_rows[(1,)](addresses(kept), torch.empty(4, D), R=4, D=D)
    (finding,) = report.findings
    assert (finding.count, finding.lane) == (13, (1, 0))
    assert finding.argument is not None
    assert finding.argument.name == "table_ptr"


def test_copies_stay_unwritten_until_they_are_used() -> None:
    with sanitize() as report:
        first, second = partly_written([n < 5 for n in range(D)]), torch.zeros(D)
        copies = [torch.empty(D), torch.empty(D)]
        copy_each[(2,)](addresses([first, second]), addresses(copies), D, D=D)
        assert report.findings == []
        sum_up[(1,)](addresses(copies), torch.empty(D), 2, D=D)
    assert unwritten(report.findings) == [("sum_up", 3)]


def test_copies_to_written_memory_are_reported() -> None:
    with sanitize() as report:
        sources, targets = [torch.empty(D)], [torch.zeros(D)]
        copy_each[(1,)](addresses(sources), addresses(targets), 6, D=D)
    assert unwritten(report.findings) == [("copy_each", 6)]


def test_a_program_may_read_its_own_stores() -> None:
    with sanitize(checks="initcheck") as report:
        kept = [torch.empty(D) for _ in range(3)]
        write_then_read[(3,)](addresses(kept), torch.empty(3, D), D=D)
        sum_up[(1,)](addresses(kept), torch.empty(D), 3, D=D)
    assert report.findings == []


def test_tensors_that_are_passed_may_be_reached_by_address_too() -> None:
    with sanitize() as report:
        tensor = partly_written([n > 0 for n in range(D)])
        out = torch.empty(D)
        copy_each[(1,)](addresses([tensor]), addresses([out]), D, D=D)
        sum_up[(1,)](addresses([out]), out, 1, D=D)
    assert unwritten(report.findings) == [("sum_up", 1)]
