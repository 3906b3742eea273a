"""Tests of sorting networks, several steps of which are fused in blocks of registers.

The materialised schedule is the oracle: it stores the tile after each step.
"""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.interpreter import interpret
from ttools.interpreter.abi.module import EmitOptions, Facts
from ttools.interpreter.analysis.effects import Provenance, memory_effects
from ttools.interpreter.emit.kernel import emit_kernel
from ttools.interpreter.native.jit import QUICK
from ttools.interpreter.schedule.plan import Plan
from ttools.interpreter.schedule.schedule import make_plan
from ttools.ir.parser import parse_module

SORTED = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int8, torch.uint8)


@triton.jit
def sort_rows(x_ptr, out_ptr, ROWS: tl.constexpr, N: tl.constexpr, DESCENDING: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out_ptr + at, tl.sort(tl.load(x_ptr + at), descending=DESCENDING))


@triton.jit
def top_rows(x_ptr, out_ptr, ROWS: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.arange(0, ROWS)[:, None]
    x = tl.load(x_ptr + rows * N + tl.arange(0, N)[None, :])
    tl.store(out_ptr + rows * K + tl.arange(0, K)[None, :], tl.topk(x, K))


@triton.jit
def sort_masked(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < n
    x = tl.load(x_ptr + at, mask=inside, other=float("inf"))
    tl.store(out_ptr + at, tl.sort(x), mask=inside)


@triton.jit
def sort_again_and_again(x_ptr, out_ptr, turns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    for turn in range(turns):
        x = tl.sort(x) * (1 - 2 * (turn % 2)) + tl.sum(x) * 0
    tl.store(out_ptr + at, x)


@triton.jit
def sum_rows(x_ptr, out_ptr, N: tl.constexpr):
    tl.store(out_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, N))))


@triton.jit
def swapped(x, AXIS: tl.constexpr):
    """Swap the neighbours of a tile along one axis, as Triton's standard library does."""
    bits = x.to(tl.int32, bitcast=True)
    other = bits ^ tl.xor_sum(bits, AXIS, True)
    return other.to(x.dtype, bitcast=True)


@triton.jit
def mixed(x, AXIS: tl.constexpr):
    y = swapped(x, AXIS)
    return tl.where(x * 3 > y + 1, x + y, y - x * 2)


@triton.jit
def steps_with_a_store_between(x_ptr, out_ptr, seen_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at).reshape(N // 8, 2, 2, 2)
    x = mixed(mixed(x, 1), 3)
    tl.store(seen_ptr + at, x.reshape(N))
    first = mixed(x, 2)
    x = mixed(mixed(first, 1), 3)
    tl.store(out_ptr + at, (x + swapped(first, 2)).reshape(N))


@triton.jit
def argsort_rows(x_ptr, order_ptr, ROWS: tl.constexpr, N: tl.constexpr):
    """Sort packed keys and positions, as programs do that need the permutation."""
    at = tl.arange(0, ROWS)[:, None] * N + tl.arange(0, N)[None, :]
    keys = tl.load(x_ptr + at).to(tl.int64) << 32
    packed = tl.sort(keys | tl.arange(0, N)[None, :].to(tl.int64))
    tl.store(order_ptr + at, packed.to(tl.int32))


@triton.jit
def picked(x, weights, PAIRS: tl.constexpr):
    """Replace both elements of each pair by the one with weight 1."""
    sums = tl.sum(tl.reshape(x, PAIRS) * weights, 1)
    return tl.reshape(tl.broadcast_to(sums[:, None, :], PAIRS), [x.numel])


@triton.jit
def step_by_hand(keys, order, flip, OUTER: tl.constexpr, INNER: tl.constexpr):
    pairs: tl.constexpr = [OUTER, 2, INNER]
    right_ones = tl.arange(0, 2)[None, :, None]
    left, right = picked(keys, 1 - right_ones, pairs), picked(keys, right_ones, pairs)
    first, second = picked(order, 1 - right_ones, pairs), picked(order, right_ones, pairs)
    swap = (left > right) != flip
    return keys ^ tl.where(swap, left ^ right, 0), order ^ tl.where(swap, first ^ second, 0)


@triton.jit
def alternating(BLOCKS: tl.constexpr, N: tl.constexpr):
    right = tl.arange(0, BLOCKS[1])[None, :, None] > 0
    return tl.reshape(tl.broadcast_to(right, BLOCKS), [N])


@triton.jit
def sort_pairs_by_hand(x_ptr, keys_ptr, order_ptr, N: tl.constexpr, LOG: tl.constexpr):
    """Sort pairs as libraries do: each step reshapes, and sums select left and right elements."""
    at = tl.arange(0, N)
    keys, order = tl.load(x_ptr + at), at
    for stage in tl.static_range(1, LOG):
        flip = alternating([2 ** (LOG - 1 - stage), 2, 2**stage], N)
        for step in tl.static_range(stage):
            keys, order = step_by_hand(
                keys, order, flip, 2 ** (step + LOG - stage), 2 ** (stage - step - 1)
            )
    for step in tl.static_range(LOG):
        keys, order = step_by_hand(keys, order, False, 2**step, 2 ** (LOG - step - 1))
    tl.store(keys_ptr + at, keys)
    tl.store(order_ptr + at, order)


def sample(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    if dtype.is_floating_point:
        x = torch.randn(shape).to(dtype)
        x.view(-1)[:: max(2, x.numel() // 5)] = float("nan")
        x.view(-1)[1 :: max(2, x.numel() // 4)] = float("-inf")
        return x
    return torch.randint(0 if dtype == torch.uint8 else -100, 100, shape, dtype=dtype)


def bits(x: torch.Tensor) -> torch.Tensor:
    return x.view({1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.itemsize])


def run_with_both_schedules(kernel, x: torch.Tensor, *shape: int, **constants) -> torch.Tensor:
    """Run a kernel with both schedules, check that the bits are equal, and return the result."""
    results = {}
    for schedule in ("fused", "materialised"):
        results[schedule] = torch.zeros(shape or x.shape, dtype=x.dtype)
        with interpret(schedule=schedule):
            kernel[(1,)](x, results[schedule], **constants)
    assert torch.equal(bits(results["fused"]), bits(results["materialised"]))
    return results["fused"]


def emitted_of(kernel, *arguments, **constants) -> str:
    module = parse_module(str(kernel[(1,)](*arguments, **constants).asm["ttir"]))
    return emit_kernel(module, Facts(readonly=frozenset({0})), EmitOptions()).llvm_ir


def plan_of(kernel, *arguments, lanes: int = 16, **constants) -> Plan:
    module = parse_module(str(kernel[(1,)](*arguments, **constants).asm["ttir"]))
    written = memory_effects(module).written
    facts = Facts(readonly=frozenset(range(len(arguments))) - written)
    return make_plan(module.kernel, facts, EmitOptions(lanes=lanes), Provenance(module.kernel))


@pytest.mark.parametrize("dtype", SORTED, ids=str)
def test_sorts_are_equal_to_step_by_step(dtype: torch.dtype) -> None:
    x = sample(dtype, 2, 32)
    out = run_with_both_schedules(sort_rows, x, ROWS=2, N=32, DESCENDING=dtype is torch.int8)
    if not dtype.is_floating_point:  # floats include NaNs, which are not ordered
        torch.testing.assert_close(out, x.sort(1, descending=dtype is torch.int8)[0])


@pytest.mark.parametrize("cpu", ["", "x86-64-v3"])
@pytest.mark.parametrize(("rows", "n"), [(1, 2), (8, 4), (1, 512)])
def test_sorts_of_any_size(monkeypatch, cpu: str, rows: int, n: int) -> None:
    monkeypatch.setenv("TTOOLS_CPU", cpu)
    x = torch.randn(rows, n)
    out = torch.zeros_like(x)
    sort_rows[(1,)](x, out, ROWS=rows, N=n, DESCENDING=rows > 1)
    torch.testing.assert_close(out, x.sort(1, descending=rows > 1)[0], rtol=0, atol=0)


@pytest.mark.parametrize(("rows", "n", "k"), [(4, 32, 4), (1, 256, 64)])
def test_the_largest(rows: int, n: int, k: int) -> None:
    x = torch.randn(rows, n)
    out = torch.zeros(rows, k)
    top_rows[(1,)](x, out, ROWS=rows, N=n, K=k)
    torch.testing.assert_close(out, x.topk(k, dim=1)[0], rtol=0, atol=0)


def test_the_largest_step_by_step() -> None:
    out = run_with_both_schedules(top_rows, sample(torch.float32, 2, 32), 2, 8, ROWS=2, N=32, K=8)
    assert out.shape == (2, 8)


def test_argsort_with_packed_positions() -> None:
    x = torch.stack([torch.randperm(64) for _ in range(4)]).to(torch.int32)
    order = torch.zeros_like(x)
    argsort_rows[(1,)](x, order, ROWS=4, N=64)
    torch.testing.assert_close(order.long(), x.argsort(1))


def test_pairs_sorted_by_hand() -> None:
    x = torch.randperm(128).to(torch.int32)
    keys, order = torch.zeros_like(x), torch.zeros_like(x)
    sort_pairs_by_hand[(1,)](x, keys, order, N=128, LOG=7)
    torch.testing.assert_close(keys, x.sort()[0])
    torch.testing.assert_close(order.long(), x.argsort())


def test_sorting_networks_are_compiled_with_few_passes() -> None:
    x = torch.randperm(128).to(torch.int32)
    y = torch.empty_like(x)
    assert emitted_of(sort_pairs_by_hand, x, y, y.clone(), N=128, LOG=7).startswith(QUICK)
    assert emitted_of(sort_rows, x, y, ROWS=1, N=128, DESCENDING=False).startswith(QUICK)
    assert QUICK not in emitted_of(sum_rows, x, y, N=128)


def test_masked_rows_and_rows_sorted_in_a_loop() -> None:
    x = torch.randn(3, 100)
    out = torch.zeros_like(x)
    sort_masked[(3,)](x, out, 100, BLOCK=128)
    torch.testing.assert_close(out, x.sort(1)[0], rtol=0, atol=0)
    y = torch.randint(-50, 50, (64,)).float()
    sorted_in_loop = torch.zeros_like(y)
    sort_again_and_again[(1,)](y, sorted_in_loop, 3, BLOCK=64)
    torch.testing.assert_close(sorted_in_loop, (-y).sort()[0], rtol=0, atol=0)


def test_tiles_that_are_stored_between_steps() -> None:
    x = torch.randint(-9, 9, (128,), dtype=torch.int32)
    results = {}
    for schedule in ("fused", "materialised"):
        out, intermediate = torch.zeros_like(x), torch.zeros_like(x)
        with interpret(schedule=schedule):
            steps_with_a_store_between[(1,)](x, out, intermediate, N=128)
        results[schedule] = torch.stack([out, intermediate])
    cube = x.reshape(16, 2, 2, 2)
    for axis in (1, 3):
        other = cube.flip(axis)
        cube = torch.where(cube * 3 > other + 1, cube + other, other - cube * 2)
    torch.testing.assert_close(results["fused"][1], cube.reshape(128))
    assert torch.equal(results["fused"], results["materialised"])


@settings(max_examples=6, deadline=None)
@given(
    st.sampled_from([4, 16, 32]),
    st.sampled_from([1, 2, 4]),
    st.booleans(),
    st.integers(0, 2**31 - 1),
)
def test_any_sort_agrees_with_torch(n: int, rows: int, descending: bool, seed: int) -> None:
    x = torch.randint(-5, 5, (rows, n), generator=torch.Generator().manual_seed(seed)).to(
        torch.int32
    )
    out = torch.zeros_like(x)
    sort_rows[(1,)](x, out, ROWS=rows, N=n, DESCENDING=descending)
    torch.testing.assert_close(out, x.sort(1, descending=descending)[0])


def test_most_steps_are_not_stored() -> None:
    x = torch.randn(1024)
    plan = plan_of(sort_rows, x, torch.empty_like(x), ROWS=1, N=1024, DESCENDING=False)
    members = [v for group in plan.fusion_groups.values() for v in group.members]
    assert len(members) >= 50  # of 55
    assert sum(plan.is_stored(v) for v in members) == len(plan.fusion_groups)
    assert all(len(group.axes) <= 2 for group in plan.fusion_groups.values())


def test_wide_elements_have_smaller_blocks() -> None:
    x = torch.randint(0, 9, (1024,))
    plan = plan_of(sort_rows, x, torch.empty_like(x), ROWS=1, N=1024, DESCENDING=False)
    assert {len(group.axes) for group in plan.fusion_groups.values()} == {1}


def test_a_store_between_steps_ends_a_group() -> None:
    x = torch.zeros(128, dtype=torch.int32)
    plan = plan_of(steps_with_a_store_between, x, torch.empty_like(x), torch.empty_like(x), N=128)
    assert len(plan.fusion_groups) == 2
    for group in plan.fusion_groups.values():
        kept = [v for v in group.members if plan.is_stored(v)]
        assert group.members[-1] in kept
