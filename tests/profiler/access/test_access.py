"""Sectors, sharing and widths of accesses agree with the addresses that the source computes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.core.compilation.layouts.accesses import access_layouts
from ttools.core.compilation.layouts.terms import Holder, Layout
from ttools.core.compilation.layouts.ttgir import holder
from ttools.profiler import Profile, profile
from ttools.profiler.access.requests import distinct, request_elements
from ttools.profiler.access.trace import touched

SECTOR = 32


@triton.jit
def copy_kernel(
    x_ptr, out_ptr, row_stride, column_stride, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    columns = tl.arange(0, BLOCK_N)[None, :]
    for start in range(0, N, BLOCK_N):
        inside = (rows < M) & (start + columns < N)
        x = tl.load(x_ptr + rows * row_stride + (start + columns) * column_stride, mask=inside)
        tl.store(out_ptr + rows * N + start + columns, x, mask=inside)


@triton.jit
def table_kernel(table_ptr, out_ptr, step, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    row = tl.load(table_ptr + offs)
    for n in range(3):
        row += tl.load(table_ptr + offs + n * step)
    tl.atomic_add(out_ptr + offs % 2, row)


def naive(prof: Profile, base: int, strides: tuple[int, int], extents: tuple[int, int]) -> Any:
    """Count requests, sectors and the fewest possible sectors of the first load, by sets."""
    analysis = prof.analyse()
    (inspection,) = analysis.inspections
    layout = next(
        candidate
        for candidate in access_layouts(inspection.compilation)
        if candidate.kind == "load"
    )
    (row,) = analysis.accesses[analysis.accesses["kind"] == "load"].to_dict("records")
    wide = row["bits"] // 32
    (m, n), distribution = layout.shape, layout.elements
    requests = sectors = fewest = 0
    for block, start in product(range(-(-extents[0] // m)), range(0, extents[1], n)):
        for warp, first in product(
            range(distribution.warps), range(0, distribution.registers, wide)
        ):
            own = set()
            for lane, register in product(range(distribution.lanes), range(first, first + wide)):
                at = distribution.at(register, lane, warp)
                place = block * m + at[0], start + at[1]
                if place[0] < extents[0] and place[1] < extents[1]:
                    own.add(base + 4 * (place[0] * strides[0] + place[1] * strides[1]))
            if own:
                requests += 1
                sectors += len({address // SECTOR for address in own})
                fewest += -(-4 * len(own) // SECTOR)
    return requests, sectors, fewest


@settings(max_examples=6, deadline=None)
@given(
    strides=st.sampled_from([(64, 1), (1, 48), (100, 3), (0, 1), (160, 2)]),
    extents=st.sampled_from([(32, 64), (30, 50), (7, 16)]),
)
def test_sectors_are_those_of_the_addresses(
    strides: tuple[int, int], extents: tuple[int, int]
) -> None:
    x, out = torch.zeros(8000), torch.zeros(extents)
    with profile(target="sm_90") as prof:
        grid = (triton.cdiv(extents[0], 16),)
        copy_kernel[grid](x, out, *strides, *extents, BLOCK_M=16, BLOCK_N=32, num_warps=2)
    requests, sectors, fewest = naive(prof, x.data_ptr(), strides, extents)
    (row,) = prof.analyse().accesses[prof.analyse().accesses["kind"] == "load"].to_dict("records")
    assert not row["sampled"]
    assert row["sectors_per_request"] == pytest.approx(sectors / requests)
    assert row["ideal_per_request"] == pytest.approx(fewest / requests)


@triton.jit
def column_kernel(x_ptr, out_ptr, K, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    n = tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        inside = (k < K)[:, None]
        x = tl.load(x_ptr + n[None, :] * K + k[:, None], mask=inside, other=0)
        total += tl.sum(x.to(tl.float32), 0)
    tl.store(out_ptr + n, total)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float16,
        *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in (torch.int8, torch.float32)),
    ],
)
@pytest.mark.parametrize("depth", [128, 101])
def test_tiles_processed_in_strips_are_one_access(dtype: torch.dtype, depth: int) -> None:
    """Count a tile of bytes as one access, although its strips are narrower than a sector."""
    x, out = torch.ones(32, depth, dtype=dtype), torch.zeros(32)
    with profile(target="sm_90", line_times=False) as prof:
        column_kernel[(1,)](x, out, depth, BLOCK_N=32, BLOCK_K=64)
    assert (out == depth).all()
    analysis = prof.analyse()
    (sample,) = analysis.samples
    assert sample.counts is not None
    trace = sample.counts.accesses[0]
    k, n = np.arange(128)[:, None], np.arange(32)[None, :]
    expected = np.where(k < depth, x.data_ptr() + x.element_size() * (n * depth + k), -1)
    assert trace.addresses.tolist() == expected.reshape(2, -1).tolist()
    if depth == 128:
        assert analysis.accesses["efficiency"][0] == 1.0


def test_sharing_and_reuse_by_programs() -> None:
    table, out = torch.ones(256), torch.zeros(2)
    with profile(target="sm_80") as prof:
        table_kernel[(5,)](table, out, 0, BLOCK=256)
    accesses = prof.analyse().accesses
    assert list(accesses["kind"]) == ["load", "load", "atomic"]
    assert list(accesses["shared_by"][:2]) == [5.0, 5.0]
    assert list(accesses["again"][:2]) == [1.0, 3.0]
    assert list(accesses["bits"][:2]) == list(accesses["possible_bits"][:2])


def test_width_that_the_compiler_cannot_prove() -> None:
    x, out = torch.zeros(32, 1000), torch.zeros(32, 1000)
    with profile(target="sm_90") as prof:
        # 1000 is not a multiple of 16, but every row starts at a multiple of 16 bytes.
        copy_kernel[(2,)](x, out, 1000, 1, 32, 1000, BLOCK_M=16, BLOCK_N=64)
    assert list(prof.analyse().accesses["bits"]) == [32, 32]
    assert list(prof.analyse().accesses["possible_bits"]) == [128, 128]
    with profile(target="sm_90") as prof:
        # Rows of 1001 elements do not.
        copy_kernel[(2,)](torch.zeros(32032), out, 1001, 1, 32, 1000, BLOCK_M=16, BLOCK_N=64)
    assert list(prof.analyse().accesses["possible_bits"]) == [32, 128]


def test_slices_and_amds_targets() -> None:
    x, out = torch.zeros(32, 64), torch.zeros(32, 64)
    with profile(target="gfx942") as prof:
        copy_kernel[(2,)](x, out, 64, 1, 32, 64, BLOCK_M=16, BLOCK_N=64)
    analysis = prof.analyse()
    assert list(analysis.accesses["kind"]) == ["load", "store"]
    assert (analysis.accesses["efficiency"] == 1.0).all()


def test_without_a_target_there_are_no_sectors() -> None:
    x, out = torch.zeros(32, 64), torch.zeros(32, 64)
    with profile() as prof:
        copy_kernel[(2,)](x, out, 64, 1, 32, 64, BLOCK_M=16, BLOCK_N=64)
    analysis = prof.analyse()
    assert len(analysis.accesses) == 0
    assert "sectors_per_request" in analysis.accesses.columns


runs = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20), st.integers(0, 3)), max_size=20)


@given(found=runs)
def test_unions_of_runs(found: list[tuple[int, int, int]]) -> None:
    start, length, program = (np.array([run[n] for run in found], np.int64) for n in range(3))
    cells = {(p, cell) for s, size, p in found for cell in range(s, s + size)}
    assert touched(start, start + length) == len({cell for _, cell in cells})
    assert touched(start, start + length, program) == len(cells)


@given(rows=st.lists(st.lists(st.integers(-1, 5), min_size=4, max_size=4), max_size=6))
def test_different_values_of_rows(rows: list[list[int]]) -> None:
    values = np.array(rows, np.int64).reshape(-1, 4)
    expected = [len({value for value in row if value >= 0}) for row in rows]
    assert list(distinct(values, values >= 0)) == expected


LAYOUTS = [
    Layout(
        "#a",
        "blocked",
        "sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [2, 2], order = [1, 0]",
    ),
    Layout(
        "#b",
        "blocked",
        "sizePerThread = [2, 3], threadsPerWarp = [32, 1], warpsPerCTA = [1, 4], order = [0, 1]",
    ),
    Layout(
        "#c",
        "linear",
        "register = [[0, 1], [0, 2], [8, 0]], lane = [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]], "
        "warp = [[16, 0], [0, 0]], block = []",
    ),
    Layout("#d", "nvidia_mma", "versionMajor = 2, warpsPerCTA = [2, 2], instrShape = [16, 8]"),
]


def elements_one_by_one(held: Holder, elements: int, once: bool) -> list[list[int]]:
    elements = min(elements, held.registers)
    rows, starts = [], set()
    for warp, first in product(range(held.warps), range(0, held.registers, elements)):
        row = []
        for lane, register in product(range(held.lanes), range(first, first + elements)):
            number = -1
            if register < held.registers:
                row_number, column = held.at(register, lane, warp)
                number = row_number * held.shape[1] + column
            row.append(-1 if once and number in starts else number)
            starts.add(number)
        rows.append(row)
    return rows


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("shape", [(32, 64), (4, 12), (64, 16)])
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_elements_of_requests(layout: Layout, shape: tuple[int, int], once: bool) -> None:
    elements_held = holder(layout, shape, 32)
    assert elements_held is not None
    for elements in (1, 2, 3, 4, 64):
        requested = request_elements(elements_held, elements, once=once)
        assert requested.tolist() == elements_one_by_one(elements_held, elements, once)
