"""Comparisons of recordings report exactly the planted differences."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from watched_kernels import accumulate, line_of, narrow, product, unrolled

from ttools.core.errors import UsageError
from ttools.interpreter import interpret
from ttools.watch import watch
from ttools.watch.report.comparison import as_data, compare, text_lines


@triton.jit
def fused(out_ptr, x_ptr, steps, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    acc = x
    for _ in range(steps):
        acc = acc * x + 1.0
    tl.store(out_ptr + offs, acc)


@triton.jit
def index_of_largest(out_ptr, x_ptr, WIDTH: tl.constexpr):
    rows, columns = tl.arange(0, 4)[:, None], tl.arange(0, WIDTH)[None, :]
    best = tl.argmax(tl.load(x_ptr + rows * WIDTH + columns), 1)
    tl.store(out_ptr + tl.arange(0, 4), best)


@triton.jit
def largest_and_its_index(out_ptr, x_ptr, WIDTH: tl.constexpr):
    rows, columns = tl.arange(0, 4)[:, None], tl.arange(0, WIDTH)[None, :]
    x = tl.load(x_ptr + rows * WIDTH + columns)
    best = tl.argmax(x, 1)
    tl.store(out_ptr + tl.arange(0, 4), best + tl.max(x, 1, return_indices=True)[0].to(tl.int32))


def run_fused(x: torch.Tensor, steps: int = 3, **options: Any) -> torch.Tensor:
    out = torch.zeros(LANES)
    fused[(1,)](out, x, steps, BLOCK=LANES, **options)
    return out


LANES = 32
X = torch.linspace(0.1, 3.3, LANES)


def test_python_agrees_with_native_code() -> None:
    with watch(compare="eager") as run:
        accumulate[(2,)](torch.zeros(64), torch.arange(160.0), 50, 3, BLOCK=32)
        narrow[(1,)](torch.zeros(LANES), X * 10, BLOCK=LANES)
        unrolled[(1,)](torch.zeros(8), torch.arange(16.0), BLOCK=8)
        product[(1,)](
            torch.zeros(16, 16), torch.ones(16, 32), torch.ones(32, 16), 32, N=16, BLOCK=16
        )
    comparison = run.comparison
    assert comparison.first is None
    assert not comparison.differing
    assert comparison.launches == 4
    assert comparison.compared > 70


@pytest.mark.parametrize("kernel", [index_of_largest, largest_and_its_index])
def test_a_variable_is_one_result_of_a_reduction(kernel: Any) -> None:
    """Reductions of values with their indices have two results; a variable is not both of them."""
    with watch(compare="eager", rtol=0, atol=0) as run:
        kernel[(1,)](torch.zeros(4, dtype=torch.int32), torch.rand(4, 8), WIDTH=8)
    assert run.comparison.first is None
    assert not run.comparison.differing


def test_the_launch_has_the_effect_of_native_code() -> None:
    with interpret():
        expected = run_fused(X)
    with watch(compare="eager"):
        assert torch.equal(run_fused(X), expected)


def test_the_first_rounding_that_differs(tmp_path: Path) -> None:
    """Compare a fused product and sum, which is rounded once, with separate ones, rounded twice."""
    file = tmp_path / "earlier.trace"
    with watch(trace=file):
        run_fused(X, enable_fp_fusion=False)
    with watch(compare=file, rtol=0, atol=0) as run:
        run_fused(X)
    x = X.numpy()
    acc, iteration, lanes = x, 0, np.zeros(0, np.int64)
    while not len(lanes):
        twice = acc * x + np.float32(1)
        once = (acc.astype(np.float64) * x + 1).astype(np.float32)
        lanes = np.flatnonzero(once != twice)
        acc, iteration = twice, iteration + 1
    first = run.comparison.first
    assert first is not None
    assert (first.one.name, first.one.assignment.line) == ("acc", line_of(fused, "acc = acc * x"))
    assert first.one.iteration == first.other.iteration == (iteration - 1,)
    assert first.lane == (lanes[0],)
    assert first.one.values[lanes[0]] == once[lanes[0]]
    assert first.other.values[lanes[0]] == twice[lanes[0]]
    assert first.differing == len(lanes)


def test_a_tolerance_hides_small_differences() -> None:
    with watch(compare="eager", rtol=1e-6, atol=0) as run:
        run_fused(X)
    assert run.comparison.first is None


def test_against_an_earlier_trace(tmp_path: Path) -> None:
    file = tmp_path / "earlier.trace"
    with watch(trace=file):
        run_fused(X)
    changed = X.clone()
    changed[3] = float("nan")
    with watch(compare=file) as run:
        run_fused(X)
    assert run.comparison.first is None
    with watch(compare=file) as run:
        run_fused(changed)
    first = run.comparison.first
    assert first is not None
    assert (first.one.name, first.lane, first.differing) == ("x", (3,), 1)
    text = "\n".join(text_lines(run.comparison))
    assert re.search(r"test_comparison.py:\d+: `x` differs first\n +\d+ \| +x = tl.load", text)
    assert "fused, launch 0, grid (1, 1, 1), program (0, 0, 0), lane [3] of [32]" in text
    assert "native code" in text
    assert "nan" in text
    assert "1 of 32 lanes differ" in text
    assert as_data(run.comparison)["first"]["values"] == ["nan", f"{float(X[3]):.9g}"]


def test_pointers_are_compared_by_the_elements_they_address(tmp_path: Path) -> None:
    def run_once(first: int) -> None:
        accumulate[(1,)](torch.zeros(32), torch.arange(160.0)[first:], 32, 2, BLOCK=32)

    file = tmp_path / "earlier.trace"
    with watch(["ptrs"], trace=file):
        run_once(0)
    with watch(["ptrs"], compare=file) as run:
        run_once(5)  # different addresses, but the same elements
    assert run.comparison.first is None
    assert run.comparison.compared == 3


def test_runs_with_different_launches(tmp_path: Path) -> None:
    file = tmp_path / "earlier.trace"
    with watch(trace=file):
        run_fused(X)
    with watch(compare=file) as run:
        narrow[(1,)](torch.zeros(LANES), X, BLOCK=LANES)
    with pytest.raises(UsageError, match=r"native code launched `narrow`, but .* `fused`"):
        _ = run.comparison
    with watch(compare=file) as run:
        fused[(2,)](torch.zeros(LANES), X, 3, BLOCK=LANES)
    with pytest.raises(UsageError, match=r"launch 0 of `fused` has grid \(2, 1, 1\) in native"):
        _ = run.comparison
    with pytest.raises(UsageError, match="cannot read the trace"):
        watch(compare=tmp_path / "missing")
    with pytest.raises(UsageError, match="there is no comparison"):
        _ = watch(["x"]).comparison


@pytest.mark.parametrize(
    ("names", "programs", "why"),
    [
        (["nothing"], None, "native code contains no values"),
        (["total"], None, r"native code contains `total`, but .*earlier.trace `x`"),
        (["x"], "1", "contain values of different programs"),
        (["pid"], "0", "native code contains `pid`"),
    ],
)
def test_reasons_why_nothing_can_be_compared(
    tmp_path: Path, names: list[str], programs: str | None, why: str
) -> None:
    def run_once() -> None:
        accumulate[(2,)](torch.zeros(64), torch.arange(160.0), 50, 3, BLOCK=32)

    file = tmp_path / "earlier.trace"
    with watch(["x"], trace=file, programs="0"):
        run_once()
    with watch(names, compare=file, programs=programs) as run:
        run_once()
    with pytest.raises(UsageError, match=f"nothing to compare: .*{why}"):
        _ = run.comparison


def test_kernels_are_paired_in_the_order_of_their_own_launches(tmp_path: Path) -> None:
    file = tmp_path / "earlier.trace"
    with watch(["x"], trace=file):
        run_fused(X)
        run_fused(X + 1)
    with watch(["x"], compare=file) as run:
        run_fused(X)
        narrow[(1,)](torch.zeros(LANES), X, BLOCK=LANES)
        run_fused(X + 1)
    comparison = run.comparison
    assert comparison.first is None
    assert (comparison.launches, comparison.compared) == (2, 2)
    assert comparison.unpaired == {"narrow": (1, 0)}
    assert as_data(comparison)["unpaired"] == {"narrow": [1, 0]}


def test_large_grids_are_sampled() -> None:
    @triton.jit
    def square(x_ptr):
        i = tl.program_id(0)
        squared = i * i
        tl.store(x_ptr + i, squared)

    x = torch.zeros(1000, dtype=torch.int32)
    with watch(compare="eager") as run:
        square[(1000,)](x)
    assert torch.equal(x, torch.arange(1000, dtype=torch.int32) ** 2)
    programs = {record.program[0] for record in run.recording}
    assert {0, 999} <= programs
    assert len(programs) <= 32
    assert run.comparison.first is None


@given(st.integers(0, 2), st.integers(0, 31), st.sampled_from(["acc", "x"]))
@settings(max_examples=8)
def test_a_planted_difference_is_found(iteration: int, lane: int, name: str) -> None:
    """Change one element of one value of a recording, which is the first difference."""
    with watch(["acc", "x"], programs="1") as run:
        accumulate[(2,)](torch.zeros(64), torch.arange(160.0), 64, 3, BLOCK=32)
    original, modified = run.recording, run.recording
    line = line_of(accumulate, "acc += scaled") if name == "acc" else None
    (record,) = modified.select(name, iteration=(iteration,), line=line)
    start = record.assignment.lanes * record.assignment.masked
    raw = np.frombuffer(record._raw, np.uint8)
    changed = raw.copy()
    changed[start:].view(np.float32)[lane] += 1
    data = bytes(modified._data).replace(raw.tobytes(), changed.tobytes(), 1)
    comparison = compare(original, type(modified)(data))
    assert comparison.first is not None
    assert (comparison.first.one.name, comparison.first.one.iteration) == (name, (iteration,))
    assert (comparison.first.lane, comparison.first.differing) == ((lane,), 1)
    assert comparison.differing == {name: 1}
