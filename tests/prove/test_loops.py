"""Loops: values that they carry, the bounds of `while` loops, and overflows of their counters."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from tests.prove import kernels
from tests.prove.test_against_runs import check_claims, load_text

from ttools.prove.analysis import Analysis
from ttools.prove.result import Result


def _analyse(run: Callable[..., Any], first: int, last: int) -> Result:
    return Analysis(run, {"n": (first, last)}).analyse()


@triton.jit
def pointer_step_kernel(x_ptr, o_ptr, stride, K, BK: tl.constexpr, BN: tl.constexpr):
    c = tl.program_id(0) * BN + tl.arange(0, BN)
    pointers = x_ptr + tl.arange(0, BK)[:, None] * stride + c[None, :]
    total = tl.zeros((BN,), tl.int32)
    for _ in range(0, K, BK):
        x = tl.load(pointers, mask=c[None, :] < stride, other=0)
        total += tl.sum(x.to(tl.int32), axis=0)
        pointers += BK * stride
    tl.store(o_ptr + c, total, mask=c < stride)


def pointer_step(n):
    x, o = torch.zeros(128, n, dtype=torch.int8), torch.empty(n, dtype=torch.int32)
    pointer_step_kernel[(triton.cdiv(n, 128),)](x, o, n, 128, BK=32, BN=128)


@triton.jit
def offset_step_kernel(x_ptr, o_ptr, stride, K, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    off = 0
    total = tl.zeros((BLOCK,), tl.int32)
    for _ in range(K):
        total += tl.load(x_ptr + off + c).to(tl.int32)
        off += stride
    tl.store(o_ptr + c, total)


def offset_step(n):
    x, o = torch.zeros(64, n, dtype=torch.int8), torch.empty(64, dtype=torch.int32)
    offset_step_kernel[(1,)](x, o, n, 64, BLOCK=64)


@triton.jit
def rows_kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    total = 0
    for i in range(n):
        x = tl.load(x_ptr + i * 4096 + tl.arange(0, BLOCK))
        total += tl.sum(x.to(tl.int32), axis=0)
    tl.store(o_ptr, total)


def rows(n):
    x, o = torch.zeros(n, 4096, dtype=torch.int8), torch.empty(1, dtype=torch.int32)
    rows_kernel[(1,)](x, o, n, BLOCK=64)


@triton.jit
def while_rows_kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    total = 0
    i = 0
    while i < n:
        x = tl.load(x_ptr + i * 4096 + tl.arange(0, BLOCK))
        total += tl.sum(x.to(tl.int32), axis=0)
        i += 1
    tl.store(o_ptr, total)


def while_rows(n):
    x, o = torch.zeros(n, 4096, dtype=torch.int8), torch.empty(1, dtype=torch.int32)
    while_rows_kernel[(1,)](x, o, n, BLOCK=64)


@triton.jit
def one_too_many_kernel(x_ptr, o_ptr, n):
    remaining = n
    total = 0.0
    while remaining >= 0:
        total += tl.load(x_ptr + remaining)
        remaining -= 1
    tl.store(o_ptr, total)


def one_too_many(n):
    one_too_many_kernel[(1,)](torch.randn(n), torch.empty(1), n)


@triton.jit
def hidden_race_kernel(y_ptr, n):
    k = 1
    while k * 2 < n:
        tl.store(y_ptr + k, tl.program_id(0) * 1.0)
        k += 4


def hidden_race(n):
    """Store to the same elements from two programs; only runs show that `k` does not overflow."""
    hidden_race_kernel[(2,)](torch.empty(n), n)


@triton.jit
def after_loop_kernel(x_ptr, o_ptr, m):
    seen = -1
    for i in range(m):
        seen = tl.where(i == 50, 0, seen)
    tl.store(o_ptr + tl.program_id(0), tl.load(x_ptr + seen))


def after_loop(n):
    after_loop_kernel[(n,)](torch.randn(n), torch.empty(n), 500)


@triton.jit
def grid_stride_kernel(y_ptr, n, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        offs = start + tl.arange(0, BLOCK)
        tl.store(y_ptr + offs, 1, mask=offs < n)


def grid_stride(n):
    """Overflow first in the counter of program 188, when it reaches 2^31 - 300 * 4096."""
    grid_stride_kernel[(300,)](torch.empty(n, dtype=torch.int8), n, BLOCK=4096)


@triton.jit
def while_stride_kernel(y_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    while start < n:
        offs = start + tl.arange(0, BLOCK)
        tl.store(y_ptr + offs, 1, mask=offs < n)
        start += tl.num_programs(0) * BLOCK


def while_stride(n):
    """Compute the step, which is the same in all iterations, in each iteration."""
    while_stride_kernel[(300,)](torch.empty(n, dtype=torch.int8), n, BLOCK=4096)


@triton.jit
def triangle_kernel(x_ptr, o_ptr, n, rest):
    total = 0.0
    for i in range(-n, 0):
        total += tl.load(x_ptr + rest)
        rest += i
    tl.store(o_ptr, total)


def triangle(n):
    """Add the counter, which differs in each iteration, to an index."""
    rest = n * (n + 1) // 2
    triangle_kernel[(1,)](torch.randn(rest + 1), torch.empty(1), n, rest)


@pytest.mark.parametrize(
    ("run", "first", "last", "kind", "size"),
    [
        (pointer_step, 1024, 1 << 26, "int_overflow", 1 << 26),
        (offset_step, 64, 1 << 26, "int_overflow", 34_087_043),
        (rows, 1, 1 << 20, "int_overflow", (1 << 19) + 1),
        (while_rows, 1, 1 << 20, "int_overflow", (1 << 19) + 1),
        (one_too_many, 1, 1 << 20, "oob_load", 1),
        (hidden_race, 1, 20, "overlapping_store", 3),
        (grid_stride, 1, (1 << 31) - 1, "int_overflow", (1 << 31) - 300 * 4096 + 1),
        pytest.param(
            *(while_stride, 1, (1 << 31) - 1, "int_overflow", (1 << 31) - 300 * 4096 + 1),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_defects_in_loops_are_found(
    run: Callable[..., Any], first: int, last: int, kind: str, size: int
) -> None:
    (defect,) = _analyse(run, first, last).defects
    assert (defect.event.kind, defect.sizes) == (kind, {"n": size})


@pytest.mark.parametrize(
    ("run", "first", "last"),
    [
        (kernels.while_loop, 0, 1 << 30),
        (while_rows, 1, 1 << 19),
        (rows, 1, 1 << 19),
        (pointer_step, 1024, (1 << 26) - 1),
    ],
)
def test_right_loops_are_proved(run: Callable[..., Any], first: int, last: int) -> None:
    result = _analyse(run, first, last)
    assert (result.verdict, result.abstained) == ("proved", [])


def test_the_result_of_a_long_loop_is_not_extrapolated() -> None:
    """Do not prove a result that only changes after 50 of 500 iterations."""
    assert _analyse(after_loop, 1, 40).verdict == "not proved"


def test_indices_that_grow_by_the_counter_are_not_extrapolated() -> None:
    result = _analyse(triangle, 150, 160)
    assert (result.verdict, result.defects) == ("not proved", [])


_WHILE = """
import torch, triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, n, s, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    k = {first}
    j = {other}
    p = x_ptr + pid
    while {condition}:
        x = tl.load({load} + lane, mask=lane + k < n)
        tl.store(y_ptr + {store} + lane, x, mask={mask})
        k += {step}
        j += {other_step}
        p += {pointer_step}

def run(n):
    s = {s}
    x, y = torch.randn({extent}), torch.empty({other_extent})
    kernel[({grid},)](x, y, n, s, BLOCK=4)
"""


def _text(choose: random.Random) -> str:
    extents = ["n", "n + 8", "n * s", "n * n + 40"]
    return _WHILE.format(
        first=choose.choice(["0", "pid * BLOCK", "n", "pid", "1"]),
        other=choose.choice(["0", "n", "pid * s"]),
        condition=choose.choice(
            ["k < n", "k <= n", "(k < n) & (j < 9)", "k < n - 1", "j + k < n", "k * 2 < n", "9 > k"]
        ),
        load=choose.choice(["x_ptr + k", "x_ptr + j", "p", "x_ptr + k * s", "x_ptr + n - 1 - k"]),
        store=choose.choice(["k", "j", "pid * n + k", "k * s"]),
        mask=choose.choice(["lane + k < n", "lane < 1", "lane + j < n", "None"]),
        step=choose.choice(
            ["1", "BLOCK", "s", "BLOCK * tl.num_programs(0)", "(pid + n * 40).to(tl.int8)"]
        ),
        other_step=choose.choice(["1", "s", "-1", "k", "0"]),
        pointer_step=choose.choice(["1", "s", "BLOCK * s", "(pid + n * 9).to(tl.int8)"]),
        s=choose.choice(["2", "n", "triton.cdiv(n, 4)"]),
        extent=choose.choice(extents),
        other_extent=choose.choice(extents),
        grid=choose.choice(["triton.cdiv(n, 4)", "2", "1"]),
    )


@pytest.mark.parametrize(
    "seed", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 1, 3, 4, 5))]
)
def test_claims_of_while_loops_hold_at_every_size(tmp_path: Path, seed: int) -> None:
    text = _text(random.Random(seed))
    check_claims(load_text(tmp_path, f"sizes_while_{seed}", text))
