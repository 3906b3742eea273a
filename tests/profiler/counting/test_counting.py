"""Counts of launches agree with the known work of the kernels."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.interpreter import interpret
from ttools.interpreter.abi.module import Instruments
from ttools.profiler.counting.counter import WorkCounter
from ttools.profiler.counting.counts import LineCounts, WorkCounts


class Counting:
    """Counts each launch before it runs."""

    def __init__(self) -> None:
        self.counter = WorkCounter()
        self.counts: list[WorkCounts] = []

    def launch(self, launch):
        self.counts.append(self.counter.count(launch))
        return launch.execute(Instruments())


@pytest.fixture
def counting():
    observer = Counting()
    with interpret(observer=observer):
        yield observer


def lines_by_text(kernel, counts: WorkCounts) -> dict[str, LineCounts]:
    """Return the counts of lines, by their stripped text."""
    first, source = kernel.starting_line_number, kernel.raw_src
    return {
        source[line.location.line - first].strip(): line for line in counts.lines if line.location
    }


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    y = tl.load(y_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, x + y, mask=mask)


@settings(max_examples=15, deadline=None)
@given(n=st.integers(1, 3000), block=st.sampled_from([16, 64, 256]))
def test_masked_tails(n: int, block: int) -> None:
    x, y, out = torch.ones(n), torch.ones(n), torch.zeros(n)
    grid = triton.cdiv(n, block)
    observer = Counting()
    with interpret(observer=observer):
        add_kernel[(grid,)](x, y, out, n, BLOCK=block)
    (counts,) = observer.counts
    assert counts.programs == grid
    assert (counts.total.loaded, counts.total.stored) == (8 * n, 4 * n)
    assert (counts.unique_loaded, counts.unique_stored) == (8 * n, 4 * n)
    assert counts.total.lanes == 3 * grid * block
    assert counts.total.masked_off == 3 * (grid * block - n)
    assert counts.total.operations == Counter({"fp32": grid * block})
    assert counts.exact
    assert torch.equal(out, x + y)


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, K, N, M: tl.constexpr, NB: tl.constexpr, KB: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * NB + tl.arange(0, NB)
    total = tl.zeros((M, NB), tl.float32)
    for k in range(0, K, KB):
        ks = k + tl.arange(0, KB)
        a = tl.load(a_ptr + rows[:, None] * K + ks[None, :])
        b = tl.load(b_ptr + ks[:, None] * N + columns[None, :])
        total += tl.dot(a, b)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total)


def test_products_and_cached_operands(counting: Counting) -> None:
    size = 64
    a, b = (torch.randn(size, size, dtype=torch.float16) for _ in range(2))
    c = torch.zeros(size, size)
    matmul_kernel[(4, 2)](a, b, c, size, size, M=16, NB=32, KB=16)
    (counts,) = counting.counts
    assert counts.total.operations == Counter({"dot fp16": 2 * size**3})
    # Two programs request each element of a, and four each element of b; both are counted once as
    # unique.
    assert counts.total.loaded == (2 + 4) * size * size * 2
    assert counts.unique_loaded == 2 * size * size * 2
    assert counts.unique_stored == size * size * 4
    lines = lines_by_text(matmul_kernel, counts)
    assert lines["total += tl.dot(a, b)"].executions == 8 * 4
    torch.testing.assert_close(c, a.float() @ b.float(), atol=0.1, rtol=0.01)


@triton.jit
def product_kernel(x_ptr, out_ptr, PRECISION: tl.constexpr):
    at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.dot(x, x, input_precision=PRECISION))


@pytest.mark.parametrize(("precision", "unit"), [("ieee", "fp32"), ("tf32", "dot fp32")])
def test_exact_products_of_f32_use_no_matrix_units(
    counting: Counting, precision: str, unit: str
) -> None:
    x, out = torch.ones(16, 16), torch.empty(16, 16)
    product_kernel[(1,)](x, out, PRECISION=precision)
    assert counting.counts[-1].total.operations == {unit: 2 * 16**3}


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * n + columns, e / tl.sum(e, 0), mask=columns < n)


def test_reductions_count_one_operation_less_than_elements(counting: Counting) -> None:
    x = torch.randn(10, 50)
    softmax_kernel[(10,)](x, torch.empty_like(x), 50, BLOCK=64)
    (counts,) = counting.counts
    assert counts.total.operations == Counter(
        {"fp32": 10 * (64 + 63), "compare": 10 * 63, "function": 10 * 64, "divide": 10 * 64}
    )


@triton.jit
def ragged_kernel(lengths_ptr, x_ptr, out_ptr, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    length = tl.load(lengths_ptr + row)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, length, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * STRIDE + offs, mask=offs < length, other=0.0)
    if length > 0:
        tl.store(out_ptr + row, tl.sum(total, 0))


@settings(max_examples=15, deadline=None)
@given(lengths=st.lists(st.integers(0, 60), min_size=1, max_size=8))
def test_counts_depend_on_memory(lengths: list[int]) -> None:
    rows = len(lengths)
    x, out = torch.randn(rows, 64), torch.full((rows,), -1.0)
    observer = Counting()
    with interpret(observer=observer):
        for row_lengths in (lengths, lengths[::-1], [0] * rows):
            table = torch.tensor(row_lengths, dtype=torch.int32)
            ragged_kernel[(rows,)](table, x, out, STRIDE=64, BLOCK=16)
    for counts, row_lengths in zip(
        observer.counts, (lengths, lengths[::-1], [0] * rows), strict=True
    ):
        trips = sum(-(-n // 16) for n in row_lengths)
        assert counts.total.loaded == 4 * rows + 4 * sum(row_lengths)
        assert counts.unique_loaded == counts.total.loaded
        assert counts.total.stored == 4 * sum(n > 0 for n in row_lengths)
        assert counts.total.operations["fp32"] == 16 * trips + 15 * sum(n > 0 for n in row_lengths)
        assert counts.exact


@triton.jit
def lock_kernel(lock_ptr, total_ptr, count_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(total_ptr + offs, tl.load(total_ptr + offs) + 1.0)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)
    if tl.atomic_add(count_ptr, 1) == tl.num_programs(0) - 1:
        tl.store(count_ptr, 0)


def test_locks_are_counted_and_memory_is_restored(counting: Counting) -> None:
    lock, count = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    total = torch.zeros(32)
    for _ in range(2):
        lock_kernel[(6,)](lock, total, count, BLOCK=32)
    assert torch.equal(total, torch.full((32,), 12.0))
    assert (int(lock), int(count)) == (0, 0)
    for counts in counting.counts:
        assert not counts.exact
        assert counts.total.operations == Counter({"fp32": 6 * 32})
        assert counts.total.stored == 6 * 32 * 4 + 4  # the last program resets the counter
        assert counts.total.atomic >= 6 * 3 * 4
        assert counts.unique_loaded == 32 * 4


@triton.jit
def scatter_kernel(index_ptr, x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + offs, mask=offs < n)
    tl.atomic_add(out_ptr + index, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


def test_atomics_and_gathers(counting: Counting) -> None:
    generator = np.random.default_rng(0)
    index = torch.tensor(generator.integers(0, 20, 100))
    x, out = torch.ones(100), torch.zeros(50)
    scatter_kernel[(2,)](index, x, out, 100, BLOCK=64)
    (counts,) = counting.counts
    assert counts.total.atomic == 400
    assert counts.unique_loaded == 100 * (8 + 4)
    assert counts.unique_stored == 4 * len(set(index.tolist()))
    assert float(out.sum()) == 100


@triton.jit
def early_kernel(x_ptr, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    if program * BLOCK >= n:
        return
    offs = program * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, tl.load(x_ptr + offs) * 2.0)


def test_early_returns(counting: Counting) -> None:
    x = torch.ones(64)
    early_kernel[(10,)](x, 64, BLOCK=16)
    (counts,) = counting.counts
    assert counts.programs == 10
    assert counts.total.operations == Counter({"fp32": 64})
    assert (counts.total.loaded, counts.total.stored) == (256, 256)


def test_equal_launches_are_counted_once(counting: Counting) -> None:
    x = torch.ones(100)
    for n in (100, 100, 90):
        add_kernel[(2,)](x, x.clone(), torch.zeros(100), n, BLOCK=64)
    first, second, third = counting.counts
    assert first is second
    assert third.total.loaded == 8 * 90


@triton.jit(do_not_specialize=["low", "m", "n", "keep", "turns"])
def separable_kernel(x_ptr, low, m, n, keep, turns, A: tl.constexpr, B: tl.constexpr):
    rows = tl.program_id(0) * A + tl.arange(0, A)
    columns = tl.arange(0, B)
    total = tl.zeros((A, B), tl.float32)
    for turn in range(turns):
        inside = (rows[:, None] < m) & (columns[None, :] + turn < n) & (rows[:, None] >= low)
        total += tl.load(x_ptr + rows[:, None] * B + columns[None, :], mask=inside)
    every = (columns[None, :] < n) & (keep > 0)
    tl.store(x_ptr + rows[:, None] * B + columns[None, :], total, mask=every)


@triton.jit(do_not_specialize=["low", "m", "n", "keep", "turns"])
def triangular_kernel(x_ptr, low, m, n, keep, turns, A: tl.constexpr, B: tl.constexpr):
    rows = tl.program_id(0) * A + tl.arange(0, A)
    columns = tl.arange(0, B)
    total = tl.zeros((A, B), tl.float32)
    for turn in range(turns):
        inside = (rows[:, None] >= columns[None, :] + turn) & (rows[:, None] < m)
        inside &= (rows < n)[:, None]
        total += tl.load(x_ptr + rows[:, None] * B + columns[None, :], mask=inside)
    whole = (rows[:, None] * B + columns[None, :] < low * n) & (columns < keep)[None, :]
    tl.store(x_ptr + rows[:, None] * B + columns[None, :], total, mask=whole)


def _separable(rows, columns, turn, low, m, n, keep):
    loads = (rows < m) & (columns + turn < n) & (rows >= low)
    return loads, (columns < n) & (keep > 0) & (rows >= 0)


def _triangular(rows, columns, turn, low, m, n, keep):
    loads = (rows >= columns + turn) & (rows < m) & (rows < n)
    return loads, (rows * columns.shape[1] + columns < low * n) & (columns < keep)


@settings(max_examples=25, deadline=None)
@given(
    case=st.sampled_from([(separable_kernel, _separable), (triangular_kernel, _triangular)]),
    low=st.integers(0, 70),
    m=st.integers(0, 70),
    n=st.integers(0, 40),
    keep=st.integers(0, 20),
    turns=st.integers(0, 4),
)
def test_masks_that_are_products_are_counted_exactly(
    case, low: int, m: int, n: int, keep: int, turns: int
) -> None:
    kernel, oracle = case
    height, width, programs = 16, 32, 4
    x, observer = torch.zeros(height * programs * width), Counting()
    with interpret(observer=observer):
        kernel[(programs,)](x, low, m, n, keep, turns, A=height, B=width)
    (counts,) = observer.counts
    rows, columns = np.arange(height * programs)[:, None], np.arange(width)[None, :]
    loads = sum(int(oracle(rows, columns, t, low, m, n, keep)[0].sum()) for t in range(turns))
    assert counts.total.loaded == 4 * loads
    assert counts.total.stored == 4 * int(oracle(rows, columns, 0, low, m, n, keep)[1].sum())
    assert counts.total.lanes == (turns + 1) * x.numel()


@triton.jit
def converts(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, x.to(tl.float32).to(out_ptr.dtype.element_ty), mask=offs < n)


@pytest.mark.parametrize(
    "dtype",
    [
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        *(torch.float8_e4m3fn, torch.float8_e5m2, torch.int8, torch.int64),
    ],
)
def test_bytes_of_every_type(counting: Counting, dtype: torch.dtype) -> None:
    x = torch.ones(100).to(dtype)
    converts[(2,)](x, torch.empty_like(x), 100, BLOCK=64)
    (counts,) = counting.counts
    size = 100 * dtype.itemsize
    assert (counts.total.loaded, counts.total.stored) == (size, size)
    assert (counts.unique_loaded, counts.unique_stored) == (size, size)
