"""The check `reproducibility`: orders of programs, unwritten operands, constants of host code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.findings.findings import Finding
from ttools.sanitizer import sanitize


def line_of(text: str) -> int:
    """Return the line number of the only line of this file that ends with a text."""
    lines = Path(__file__).read_text("utf-8").splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if line.endswith(text)]
    return number


def findings_of(run: Any) -> list[Finding]:
    with sanitize(checks="reproducibility") as report:
        run()
    return list(report.findings)


@triton.jit
def add_parts(out_ptr, x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(x, 0))  # ordered


def parts(count: int, dtype: torch.dtype = torch.float32) -> None:
    x = (torch.randn(count * 32) * 8).to(dtype)
    add_parts[(count,)](torch.zeros(1, dtype=x.dtype), x, count * 32, BLOCK=32)


def test_the_order_of_three_atomic_additions_decides() -> None:
    (finding,) = findings_of(lambda: parts(3))
    assert (finding.kind, finding.severity, finding.count) == ("atomic_order", "warning", 1)
    assert finding.message == (
        "the order of atomic additions decides 1 element of `out_ptr`, the first of which is "
        "element 0 of its storage"
    )
    assert finding.location is not None
    assert finding.location.line == line_of("# ordered")


@pytest.mark.parametrize(("count", "dtype"), [(2, torch.float32), (3, torch.int32)])
def test_additions_whose_order_is_irrelevant(count: int, dtype: torch.dtype) -> None:
    assert findings_of(lambda: parts(count, dtype)) == []


@triton.jit
def sum_rows(out_ptr, x_ptr, stride, n, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    row, offs = tl.program_id(0), tl.arange(0, BLOCK)
    if MASKED:
        x = tl.load(x_ptr + row * stride + offs, mask=offs < n, other=0.0)
    else:
        x = tl.load(x_ptr + row * stride + offs)
    tl.store(out_ptr + row, tl.sum(x, 0))  # summed


def padded(masked: bool) -> None:
    x = torch.empty(2, 32)
    x[:, :20] = torch.randn(2, 20)
    sum_rows[(2,)](torch.zeros(2), x, 32, 20, BLOCK=32, MASKED=masked)


def test_unwritten_padding_in_a_sum() -> None:
    (finding,) = findings_of(lambda: padded(masked=False))
    assert (finding.kind, finding.severity, finding.count) == ("unwritten_operand", "warning", 2)
    assert "and 2 elements of `out_ptr` depend on them" in finding.message
    assert finding.location is not None
    assert finding.location.line == line_of("# summed")
    assert [related.message for related in finding.related] == ["loaded here"]
    assert findings_of(lambda: padded(masked=True)) == []


@triton.jit
def largest_lane(out_ptr, x_ptr, n, BLOCK: tl.constexpr, SELECTS: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    if SELECTS:
        x = tl.where(offs < n, x, -float("inf"))
    tl.store(out_ptr, tl.max(x, 0))


@pytest.mark.parametrize(("selects", "kinds"), [(False, ["unwritten_operand"]), (True, [])])
def test_lanes_that_a_mask_leaves_out(selects: bool, kinds: list[str]) -> None:
    found = findings_of(
        lambda: largest_lane[(1,)](torch.zeros(1), torch.randn(20), 20, BLOCK=32, SELECTS=selects)
    )
    assert [finding.kind for finding in found] == kinds


@triton.jit
def add_in_turn(out_ptr, lock_ptr, x_ptr):
    pid = tl.program_id(0)
    while tl.atomic_add(lock_ptr, 0, sem="acquire") != pid:
        pass
    total = tl.load(out_ptr, volatile=True) + tl.load(x_ptr + pid)  # read in turn
    tl.store(out_ptr, total)
    tl.atomic_add(lock_ptr, 1, sem="release")


def test_what_other_programs_have_stored_is_a_note() -> None:
    found = findings_of(
        lambda: add_in_turn[(3,)](torch.zeros(1), torch.zeros(1, dtype=torch.int32), torch.randn(3))
    )
    assert {(finding.kind, finding.severity) for finding in found} == {("program_order", "note")}
    lines = {finding.location.line for finding in found if finding.location}
    assert line_of("# read in turn") in lines


def split(rows: int, split_k: int, columns: int = 64) -> None:
    x = torch.randn(rows, columns)
    parts_kernel[(rows,)](torch.zeros(rows), x, columns, SPLIT_K=split_k, BLOCK=64)


@triton.jit
def parts_kernel(out_ptr, x_ptr, n, SPLIT_K: tl.constexpr, BLOCK: tl.constexpr):
    row, offs = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + offs, mask=offs < n, other=0.0)
    total = tl.sum(tl.sum(tl.reshape(x, (SPLIT_K, BLOCK // SPLIT_K)), 1), 0)
    tl.store(out_ptr + row, total)


def test_constants_that_host_code_derives_from_the_batch() -> None:
    def varying() -> None:
        for rows in (1, 8):
            split(rows, 4 if rows == 1 else 2)

    (finding,) = findings_of(varying)
    assert (finding.kind, finding.severity) == ("derived_constant", "note")
    assert finding.message == (
        "`SPLIT_K` is 4 if axis 0 of `out_ptr` has the extent 1, and 2 if it has the extent 8"
    )


def test_constants_that_do_not_depend_on_the_batch() -> None:
    def run() -> None:
        for rows, columns in ((1, 64), (8, 64), (8, 32)):
            split(rows, 2 if columns == 64 else 4, columns)  # the output has no columns

    def proportional() -> None:
        for rows in (2, 4):
            split(rows, rows)

    assert findings_of(proportional) == []
    assert findings_of(run) == []
