"""Launches in groups of programs have the same hashes as launches of one program at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from tests.verifier import reproducible_kernels as kernels

from ttools.core.gpus.targets import read_target
from ttools.interpreter import interpret
from ttools.sanitizer.reproducibility.run import HashedKernelRun, HashingObserver

sys.path.insert(0, str(Path(__file__).parents[2] / "interpreter" / "differential"))

from random_kernels import RandomKernel, check, random_kernels

Launches = list[HashedKernelRun]


def followed(
    call: Callable[[], Any], *, in_groups: bool, recorded: tuple[int, int] | None = None
) -> Launches:
    observer = HashingObserver(read_target("sm_90"), recorded=recorded, in_groups=in_groups)
    torch.manual_seed(0)
    with interpret(observer=observer):
        call()
    return observer.launches


def assert_equal(call: Callable[[], Any]) -> Launches:
    """Check that groups change nothing, and return the launches that ran in groups."""
    grouped, single = followed(call, in_groups=True), followed(call, in_groups=False)
    assert not any(launch.in_groups for launch in single)
    for ours, theirs in zip(grouped, single, strict=True):
        for name in ("kernel", "failure", "reasons", "atomics", "fusible"):
            assert getattr(ours, name) == getattr(theirs, name), name
        # Tensors are listed in the order of their addresses, which differs between calls.
        pairs = (sorted(one.stored, key=lambda t: (t.name, t.size)) for one in (ours, theirs))
        for own, other in zip(*pairs, strict=True):
            assert own.name == other.name
            for name in ("elements", "hashes", "programs"):
                np.testing.assert_array_equal(getattr(own, name), getattr(other, name))
    return grouped


@pytest.mark.parametrize(
    ("function", "is_grouped"),
    [
        ("softmax", True),
        ("sums", True),
        ("padded", True),
        ("counts", True),
        ("scan", True),
        ("normalised_by_torch", True),
        ("four_parts", False),  # atomics
        ("own_sum", False),  # a combine function of the user
    ],
)
def test_functions(function: str, is_grouped: bool) -> None:
    call = getattr(kernels, function)
    launches = assert_equal(lambda: call(torch.randn(5, 100)))
    assert {launch.in_groups for launch in launches} == {is_grouped}


@triton.jit
def triangle_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    program, offsets = tl.program_id(0), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for block in range(program % 3):
        total = total * 0.5 + tl.load(x_ptr + block * BLOCK + offsets)
    if program == 2:
        total = -total
    tl.store(out_ptr + program * BLOCK + offsets, total)


def triangle() -> None:
    triangle_kernel[(7,)](torch.randn(7, 16), torch.empty(7, 16), BLOCK=16)


@triton.jit
def square_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(x_ptr + offsets, x * x, mask=offsets < n)


def square_in_place() -> None:
    x = torch.randn(90)
    square_kernel[(6,)](x, 90, BLOCK=16)
    square_kernel[(4,)](x, 60, BLOCK=16)


@triton.jit
def shift_kernel(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets + BLOCK) + 1.0)


def read_what_the_next_program_stores() -> None:
    shift_kernel[(4,)](torch.randn(80), BLOCK=16)


@triton.jit
def last_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + offsets)
    tl.store(out_ptr + offsets, x * 2.0)


def store_to_the_same_elements() -> None:
    last_kernel[(4,)](torch.randn(64), torch.empty(16), BLOCK=16)


@triton.jit
def shapes_kernel(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    program = tl.program_id(0)
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(x_ptr + (program * M + rows)[:, None] * N + columns[None, :])
    y = tl.exp(x) + tl.load(x_ptr + columns)[None, :]
    z = tl.join(y, y * 2.0)
    first, second = tl.split(z)
    both = tl.cat(tl.reshape(first, (M * N,)), tl.reshape(second, (M * N,)), can_reorder=True)
    tl.store(out_ptr + program * 4 * M * N + tl.arange(0, 2 * M * N), both)
    place = out_ptr + (program * 4 + 2) * M * N
    picked = tl.gather(tl.trans(first), tl.zeros((N, M), tl.int32) + program % N, 0)
    tl.store(place + columns[:, None] * M + rows[None, :], picked + tl.max(second, 1)[None, :])
    tl.store(place + M * N + rows, tl.where(program == 1, tl.sum(second, 1), tl.sum(y, 1)))


def operations_on_shapes() -> None:
    shapes_kernel[(5,)](torch.randn(5, 8, 16), torch.zeros(5, 4, 8, 16), M=8, N=16)


@triton.jit
def products_kernel(a_ptr, b_ptr, out_ptr, K, BLOCK: tl.constexpr):
    rows, columns = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        a = tl.load(a_ptr + (rows + lanes)[:, None] * K + (k + lanes)[None, :])
        b = tl.load(b_ptr + (k + lanes)[:, None] * 32 + (columns + lanes)[None, :])
        total += tl.dot(a, b)
    out = tl.maximum(total, 0.0).to(tl.float16)
    tl.store(out_ptr + (rows + lanes)[:, None] * 32 + (columns + lanes)[None, :], out)


def products() -> None:
    a, b = torch.randn(48, 64).half(), torch.randn(64, 32).half()
    products_kernel[(3, 2)](a, b, torch.empty(48, 32).half(), 64, BLOCK=16)


@triton.jit
def branch_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    if tl.sum(x * 2.0) > 0.0:
        x = x + 1.0
    tl.store(out_ptr + offsets, x)


def branch_on_floats() -> None:
    branch_kernel[(4,)](torch.randn(64), torch.empty(64), BLOCK=16)


def two_kernels() -> None:
    """Load what an earlier launch has stored, and in some programs only what it has not stored."""
    x, y = torch.zeros(7, 16), torch.empty(7, 16)
    triangle_kernel[(3,)](torch.randn(7, 16), x, BLOCK=16)
    square_kernel[(7,)](x, 112, BLOCK=16)
    triangle_kernel[(7,)](x, y, BLOCK=16)


@pytest.mark.parametrize(
    ("call", "is_grouped"),
    [
        (triangle, True),
        (square_in_place, True),
        (read_what_the_next_program_stores, False),
        (store_to_the_same_elements, False),
        (operations_on_shapes, True),
        (products, True),
        (branch_on_floats, False),
        (two_kernels, True),
    ],
)
def test_kernels(call: Callable[[], None], is_grouped: bool) -> None:
    assert {launch.in_groups for launch in assert_equal(call)} == {is_grouped}


def test_operations_of_a_recorded_program() -> None:
    recorded = 1, 5  # two iterations of the loop
    (ours,), (theirs,) = (
        followed(triangle, in_groups=in_groups, recorded=recorded) for in_groups in (True, False)
    )
    assert ours.in_groups
    assert len(ours.steps) == len(theirs.steps) > 2
    for own, other in zip(ours.steps, theirs.steps, strict=True):
        assert (own.operation, own.place) == (other.operation, other.place)
        np.testing.assert_array_equal(own.result, other.result)


@hypothesis.settings(max_examples=2, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(kernel=random_kernels())
def test_random_kernels(kernel: RandomKernel) -> None:
    (launch,) = assert_equal(lambda: check(kernel))
    assert not launch.failure
