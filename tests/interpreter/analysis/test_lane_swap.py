"""Tests of the recognition of swapped neighbouring lanes, by which Triton sorts and flips tiles."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ttools.interpreter import interpret
from ttools.interpreter.analysis.lane_swap import is_only_swapped, swapped_lanes
from ttools.ir.parser import parse_module


@triton.jit
def sort_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr, DESCENDING: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    rows = tl.program_id(0) * BLOCK
    x = tl.load(x_ptr + rows + lanes)
    tl.store(out_ptr + rows + lanes, tl.sort(x, descending=DESCENDING))


@triton.jit
def flip_kernel(x_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DIM: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out_ptr + at, tl.flip(tl.load(x_ptr + at), DIM))


@triton.jit
def almost_kernel(x_ptr, out_ptr, sums_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    pairs = tl.arange(0, BLOCK // 2)
    x = tl.load(x_ptr + lanes).reshape(BLOCK // 2, 2)
    sums = tl.xor_sum(x, axis=1)
    tl.store(sums_ptr + pairs, sums)
    tl.store(out_ptr + lanes, (x ^ sums[:, None]).reshape(BLOCK))


def ttir_of(kernel, *arguments, **constants) -> str:  # type: ignore[no-untyped-def]
    return str(kernel[(1,)](*arguments, **constants).asm["ttir"])


@pytest.mark.parametrize("schedule", ["fused", "materialised"])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("block", [2, 16, 64])
def test_sort(schedule: str, descending: bool, block: int) -> None:
    x = torch.randn(3, block)
    out = torch.empty_like(x)
    with interpret(schedule=schedule):  # type: ignore[arg-type]
        sort_kernel[(3,)](x, out, BLOCK=block, DESCENDING=descending)
    torch.testing.assert_close(out, x.sort(dim=1, descending=descending)[0], rtol=0, atol=0)


@pytest.mark.parametrize("schedule", ["fused", "materialised"])
@pytest.mark.parametrize("dim", [0, 1])
def test_flip(schedule: str, dim: int) -> None:
    x = torch.arange(8 * 16, dtype=torch.int32).reshape(8, 16)
    out = torch.empty_like(x)
    with interpret(schedule=schedule):  # type: ignore[arg-type]
        flip_kernel[(1,)](x, out, ROWS=8, COLUMNS=16, DIM=dim)
    torch.testing.assert_close(out, x.flip(dim), rtol=0, atol=0)


def test_sorting_needs_no_reduction() -> None:
    x = torch.randn(16)
    module = parse_module(ttir_of(sort_kernel, x, x.clone(), BLOCK=16, DESCENDING=False))
    ops = list(module.kernel.walk())
    reductions = [op for op in ops if op.name == "tt.reduce"]
    assert reductions
    assert all(is_only_swapped(op) for op in reductions)
    assert sum(swapped_lanes(op) is not None for op in ops) == len(reductions)


def test_a_sum_with_other_uses_is_kept() -> None:
    x = torch.randint(-100, 100, (32,), dtype=torch.int32)
    out, sums = torch.empty_like(x), torch.empty(16, dtype=torch.int32)
    module = parse_module(ttir_of(almost_kernel, x, out, sums, BLOCK=32))
    (reduction,) = [op for op in module.kernel.walk() if op.name == "tt.reduce"]
    assert not is_only_swapped(reduction)
    pairs = x.reshape(16, 2)
    torch.testing.assert_close(sums, pairs[:, 0] ^ pairs[:, 1])
    torch.testing.assert_close(out, pairs.flip(1).reshape(32))
