"""Sorts, which the engine computes in blocks of registers, under all checks."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize


@triton.jit
def sort_masked(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < n
    x = tl.load(x_ptr + at, mask=inside, other=float("inf"))
    tl.store(out_ptr + at, tl.sort(x), mask=inside)


@triton.jit
def sort_past_the_end(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.sort(tl.load(x_ptr + at)))


def test_a_sort_has_the_same_result_and_no_finding() -> None:
    x = torch.randn(3, 100)
    out = torch.zeros_like(x)
    with sanitize() as report:
        sort_masked[(3,)](x, out, 100, BLOCK=128)
    torch.testing.assert_close(out, x.sort(1)[0], rtol=0, atol=0)
    assert not report.findings


def test_each_element_past_the_end_is_counted_once() -> None:
    x = torch.randn(100)
    out = torch.zeros(128)
    with sanitize(checks="memcheck") as report:
        sort_past_the_end[(1,)](x, out, BLOCK=128)
    (finding,) = report.findings
    assert finding.count == 28
