"""Loads that are checked before a branch and in both of its arms."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize


@triton.jit
def halves(x_ptr, all_ptr, out_ptr, chosen, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, 2 * ROWS * COLUMNS))
    even, odd = tl.split(tl.reshape(x, [ROWS, COLUMNS, 2]))
    tl.store(all_ptr + tl.arange(0, 2 * ROWS * COLUMNS), x)
    if chosen > 5:
        r = even * 3 - odd
    else:
        r = even - odd * 5
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out_ptr + at, r)


@pytest.mark.parametrize("chosen", [4, 6])
@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 2), (2, 1), (2, 2), (2, 4), (4, 2), (4, 4), (8, 4), (16, 16)]
)
def test_each_arm_has_its_own_bounds(rows: int, columns: int, chosen: int) -> None:
    n = rows * columns
    x, copied, out = torch.arange(2 * n) % 7, torch.empty(2 * n), torch.empty(n)
    even, odd = x[::2], x[1::2]
    with sanitize(checks="all") as report:
        halves[(1,)](x, copied, out, chosen, ROWS=rows, COLUMNS=columns)
    assert report.findings == []
    assert torch.equal(copied, x.float())
    assert torch.equal(out, (even * 3 - odd if chosen > 5 else even - odd * 5).float())
    with sanitize() as report:
        halves[(1,)](x[: 2 * n - 1].clone(), copied, out, chosen, ROWS=rows, COLUMNS=columns)
    assert {finding.kind for finding in report.findings} == {"oob_load"}
