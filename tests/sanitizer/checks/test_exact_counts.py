"""Counts of findings agree with counts of offsets, whatever other checks run."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.sanitizer import sanitize


@triton.jit(do_not_specialize=["step", "start"])
def strided_copy(x_ptr, out_ptr, start, step, BLOCK: tl.constexpr):
    offs = start + tl.arange(0, BLOCK) * step
    tl.store(out_ptr + offs, tl.load(x_ptr + offs))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
@given(
    start=st.integers(-8, 8), step=st.integers(-4, 4), sizes=st.tuples(*[st.integers(1, 40)] * 2)
)
@settings(max_examples=15, deadline=None)
def test_each_lane_out_of_bounds_counts_once(
    dtype: torch.dtype, start: int, step: int, sizes: tuple[int, int]
) -> None:
    x, out = (torch.zeros(size, dtype=dtype) for size in sizes)
    with sanitize() as report:
        strided_copy[(1,)](x, out, start, step, BLOCK=16)
    counts = {f.kind: f.count for f in report.findings if f.check == "memcheck"}
    offsets = [start + lane * step for lane in range(16)]
    outside = [sum(not 0 <= offset < size for offset in offsets) for size in sizes]
    expected = {"oob_load": outside[0], "oob_store": outside[1]}
    assert counts == {kind: count for kind, count in expected.items() if count}


@triton.jit
def unrolled_sum(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for column in tl.static_range(4):
        total += tl.load(x_ptr + rows * 4 + column)
    tl.store(out_ptr + rows, total, mask=rows < n)


def test_copies_of_an_unrolled_line_are_counted_together() -> None:
    with sanitize(checks="memcheck") as report:
        for _ in range(2):
            unrolled_sum[(2,)](torch.zeros(4 * 100), torch.zeros(100), 100, BLOCK=64)
    (finding,) = report.findings
    assert (finding.count, finding.programs) == (2 * 4 * 28, 2)


@pytest.mark.parametrize("places", [2, 40])
def test_bounds_are_those_of_the_tensors_of_each_launch(places: int) -> None:
    # The sanitizer remembers only the latest of the addresses between which tensors move.
    tensors = [torch.zeros(16 - n % 3) for n in range(places)]
    with sanitize() as report:
        for _ in range(3):
            for x in tensors:
                strided_copy[(1,)](x, x, 0, 1, BLOCK=16)
    outside = 3 * sum(n % 3 for n in range(places))
    counts = {f.kind: f.count for f in report.findings if f.check == "memcheck"}
    assert counts == {"oob_load": outside, "oob_store": outside}


@triton.jit(do_not_specialize=["which"])
def used_in_branches(x_ptr, sum_ptr, out_ptr, which, WHERE: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    lanes = program * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    if WHERE == "before":
        tl.store(sum_ptr + program, tl.sum(x))
    if which % 2 == 0:
        if which % 4 == 0:
            tl.store(out_ptr + lanes, 2 * x)
        else:
            tl.store(out_ptr + lanes, 3 * x)
    else:
        for _ in range(which):
            tl.store(out_ptr + lanes, x + 1) if WHERE == "loop" else tl.store(
                out_ptr + lanes, lanes
            )
    if WHERE == "after":
        tl.store(sum_ptr + program, tl.sum(x))


@pytest.mark.parametrize("where", ["before", "after", "only", "loop"])
@pytest.mark.parametrize("which", [1, 2, 3, 4])
def test_a_load_that_branches_use_counts_once(where: str, which: int) -> None:
    x, sums, out = torch.arange(100.0), torch.full((2,), -1.0), torch.full((128,), -1.0)
    with sanitize(checks="memcheck") as report:
        used_in_branches[(2,)](x, sums, out, which, where, BLOCK=64)
    padded = torch.cat([x, torch.zeros(28)])
    expected = padded.view(2, 64).sum(1) if where in ("before", "after") else torch.full((2,), -1.0)
    odd = padded + 1 if where == "loop" else torch.arange(128.0)
    torch.testing.assert_close(sums, expected)
    torch.testing.assert_close(out, odd if which % 2 else padded * (2 if which % 4 == 0 else 3))
    (finding,) = report.findings
    assert (finding.kind, finding.count, finding.programs) == ("oob_load", 28, 1)


@triton.jit
def everybody_stores(y_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y_ptr + i, i * 0.0 + tl.program_id(0))


@pytest.mark.parametrize("programs", [2, 5])
def test_lanes_of_a_race_are_those_of_all_programs(programs: int) -> None:
    with sanitize() as report:
        everybody_stores[(programs,)](torch.empty(16), B=16)
    (finding,) = report.findings
    counts = 16 * programs, programs
    assert (finding.kind, finding.count, finding.programs) == ("overlapping_store", *counts)
    assert "{} lanes in {} programs are affected".format(*counts) in report.to("text")
