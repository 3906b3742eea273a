"""Advice on races whose cause is a mask, an index, a stride or the grid, and on other races."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.findings.findings import Finding
from ttools.sanitizer import sanitize
from ttools.sanitizer.checks.racecheck import Racecheck

# mypy: disable-error-code="no-untyped-def"


@triton.jit
def copy_rows(x_ptr, o_ptr, n, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    m = offs < n
    v = tl.load(x_ptr + row * stride + offs, mask=m, other=0)
    tl.store(o_ptr + row * stride + offs, v + row, mask=m)


@triton.jit
def copy_whole_blocks(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    v = tl.load(x_ptr + row * n + offs, mask=offs < n, other=0)
    tl.store(o_ptr + row * n + offs, v + row)


@triton.jit
def add_one(o_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + offs, tl.load(o_ptr + offs) + 1)


@triton.jit
def fill(o_ptr, tiles, STEP: tl.constexpr):
    for t in range(tl.program_id(0), tiles, STEP):
        value = t.to(tl.float32) + tl.program_id(0)  # type: ignore[attr-defined]
        tl.store(o_ptr + t * 16 + tl.arange(0, 16), value)


@triton.jit
def last_one_wins(o_ptr):
    tl.store(o_ptr, tl.program_id(0))


@triton.jit
def claim(o_ptr, counter_ptr):
    tl.store(o_ptr, tl.atomic_add(counter_ptr, 1))


def race_of(kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> Finding:
    """Return the first finding of a race between programs."""
    with sanitize() as checked:
        kernel[grid](*arguments, **constants)
    kinds = ("overlapping_store", "race")
    return next(finding for finding in checked.findings if finding.kind in kinds)


def test_a_wide_mask() -> None:
    race = race_of(copy_rows, (8,), torch.ones(8, 80), torch.zeros(8, 80), 100, 80, BLOCK=128)
    line = copy_rows.starting_line_number + 4
    assert race.help == (
        f"correct the mask `m` (line {line}); without lanes 80-99, these accesses do not conflict"
    )


def test_a_missing_mask() -> None:
    race = race_of(copy_whole_blocks, (8,), torch.ones(8, 80), torch.zeros(8, 80), 80, BLOCK=128)
    assert race.help is not None
    assert race.help.startswith("bound `offs` (line ")
    assert race.help.endswith("these accesses do not conflict")


def test_a_wide_mask_whose_lanes_stay_in_the_tensor() -> None:
    x, o = torch.ones(10, 80), torch.zeros(10, 80)
    race = race_of(copy_rows, (8,), x, o, 100, 80, BLOCK=128)
    assert race.help == (
        "consecutive programs along axis 0 are 80 lanes apart, but the tile has 128: mask the "
        "lanes from 80 on, or correct the stride"
    )


def test_a_wrong_stride() -> None:
    race = race_of(copy_rows, (8,), torch.ones(8, 80), torch.zeros(8, 80), 80, 64, BLOCK=128)
    assert race.help == (
        "consecutive programs along axis 0 are 64 elements apart, but `o_ptr` has strides (80, 1): "
        "use its own strides"
    )


@triton.jit
def double_groups(x_ptr, n, group_size, BLOCK: tl.constexpr):
    offs = tl.program_id(1) * group_size + tl.arange(0, BLOCK)
    row = x_ptr + tl.program_id(0) * n
    tl.store(row + offs, 2 * offs + tl.program_id(1), mask=offs < n)


@pytest.mark.parametrize("rows", [1, 3])
def test_blocks_of_a_row_that_overlap(rows: int) -> None:
    x = torch.zeros(rows, 480, dtype=torch.int32)
    race = race_of(double_groups, (rows, 10), x, 480, 48, BLOCK=64)
    assert race.help == (
        "consecutive programs along axis 1 are 48 lanes apart, but the tile has 64: mask the "
        "lanes from 48 on, or correct the stride"
    )


@triton.jit
def number_heads(o_ptr, stride_b, stride_h, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    row = o_ptr + tl.program_id(0) * stride_b + tl.program_id(1) * stride_h
    tl.store(row + offs, offs + 1000 * tl.program_id(1), mask=offs < n)


@triton.jit
def number_blocks(o_ptr, n, STEP: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * STEP + tl.arange(0, BLOCK)
    tl.store(o_ptr + offs, offs + 1000 * tl.program_id(0), mask=offs < n)


@triton.jit
def number_tiles(o_ptr, stride, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BN + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    at = rows[:, None] * stride + columns[None, :]
    tl.store(o_ptr + at, at + tl.program_id(0))


@triton.jit
def number_chunks(o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    for k in range(0, n, 32):
        at = tl.program_id(0) * 32 + k + offs
        tl.store(o_ptr + at, at + 1000 * tl.program_id(0), mask=offs < 32)


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int32)


def test_a_wrong_stride_of_an_inner_dimension() -> None:
    race = race_of(number_heads, (2, 3), zeros(2, 3, 48), 144, 32, 48, BLOCK=64)
    assert race.help == (
        "consecutive programs along axis 1 are 32 elements apart, but `o_ptr` has strides "
        "(144, 48, 1): use its own strides"
    )


@pytest.mark.parametrize(
    ("shape", "grid", "advice"),
    [
        ((512,), 8, "advance by 64 lanes for each program"),
        ((8, 64), 8, "advance by 64 lanes for each program"),
        ((512,), 9, "correct the stride"),
        ((512,), 11, "mask the lanes from 48 on, or correct the stride"),
    ],
)
def test_blocks_of_another_size(shape: tuple[int, ...], grid: int, advice: str) -> None:
    race = race_of(number_blocks, (grid,), zeros(*shape), 512, STEP=48, BLOCK=64)
    assert race.help == (
        "consecutive programs along axis 0 are 48 lanes apart, but the tile has 64: " + advice
    )


def test_a_program_id_that_is_multiplied_by_the_size_of_another_axis() -> None:
    race = race_of(number_tiles, (2, 4), zeros(256, 256), 256, BM=128, BN=64)
    assert race.help == (
        "consecutive programs along axis 0 are 64 lanes apart along axis 0 of the tile, but the "
        "tile has 128: advance by 128 lanes for each program"
    )


def test_rows_of_a_view_that_overlap() -> None:
    race = race_of(number_heads, (1, 8), zeros(500).unfold(0, 64, 48), 0, 48, 64, BLOCK=64)
    assert race.help == (
        "`o_ptr` has strides (48, 1), with which its elements overlap: pass a tensor that does not "
        "overlap"
    )


def test_lanes_that_are_already_masked() -> None:
    race = race_of(number_chunks, (4,), zeros(512), 128, BLOCK=64)
    assert race.help == Racecheck.kinds["overlapping_store"].help


def test_an_axis_that_the_kernel_does_not_read() -> None:
    race = race_of(add_one, (2, 3), torch.zeros(64), BLOCK=32)
    assert race.help == (
        "use program_id(1) in the address, or launch 1 program along axis 1: these programs do "
        "the same work"
    )
    assert race.notes[0].startswith("the kernel does not read program_id(1)")


def test_a_loop_that_steps_by_another_number() -> None:
    race = race_of(fill, (3,), torch.zeros(160), 10, STEP=2)
    line = fill.starting_line_number + 2
    assert race.help == (
        f"let the loop in line {line} step by the number of programs, 3 in this launch, instead "
        "of 2"
    )


def test_other_races_need_atomics() -> None:
    usual = Racecheck.kinds["overlapping_store"].help
    assert race_of(last_one_wins, (4,), torch.zeros(1, dtype=torch.int32)).help == usual
    o, counter = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    assert race_of(claim, (4,), o, counter).help == usual


@triton.jit
def scatter_rows(x_ptr, index_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    row = tl.load(index_ptr + tl.program_id(0))
    x = tl.load(x_ptr + tl.program_id(0) * n + offs, mask=offs < n)
    tl.store(o_ptr + row * n + offs, x, mask=offs < n)


def test_equal_entries_of_a_table() -> None:
    x = torch.arange(160.0).reshape(2, 80)
    index = torch.tensor([1, 1])
    race = race_of(scatter_rows, (2,), x, index, torch.zeros(2, 80), 80, BLOCK=128)
    assert race.help == (
        "the index is computed from `index_ptr`: let its entries select different elements for "
        "each program, or combine the values by an atomic"
    )


@triton.jit
def compact(x_ptr, count_ptr, o_ptr, BLOCK: tl.constexpr):
    keep = tl.load(x_ptr + tl.arange(0, BLOCK)) > 0
    base = tl.atomic_add(count_ptr, 1)  # ought to add the number of lanes that are kept
    at = base + tl.cumsum(keep.to(tl.int32)) - 1
    tl.store(o_ptr + at, tl.arange(0, BLOCK) + 100 * tl.program_id(0), mask=keep)


def test_a_table_that_only_decides_which_lanes_are_kept() -> None:
    count = torch.zeros(1, dtype=torch.int32)
    o = torch.zeros(64, dtype=torch.int32)
    race = race_of(compact, (3,), torch.ones(16, dtype=torch.int32), count, o, BLOCK=16)
    assert race.help == Racecheck.kinds["overlapping_store"].help


@triton.jit
def shift(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + offs, tl.load(x_ptr + offs + 1, mask=offs < n - 1, other=0.0), mask=offs < n)


def test_tensors_that_share_memory() -> None:
    x = torch.arange(80.0)
    race = race_of(shift, (5,), x, x, 80, BLOCK=16)
    assert race.kind == "race"
    assert race.help == (
        "`x_ptr` and `o_ptr` have elements in common: pass tensors that share no memory, or order "
        "the programs"
    )
