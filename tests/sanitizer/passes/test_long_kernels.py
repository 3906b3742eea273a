"""Tests that the work of passes grows linearly with the operations, and results stay right."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import instrumented
import pytest
import torch
import triton
import triton.language as tl

from ttools.interpreter import interpret
from ttools.ir import Module
from ttools.ir.parser import parse_module
from ttools.sanitizer import sanitize
from ttools.sanitizer.passes import numeric, overflow, undefined
from ttools.sanitizer.passes.check import Note

B = 16
#: These cases take several seconds to a minute each; only the shortest chain is not slow.
_SLOW = pytest.mark.slow


@triton.jit
def sums(x_ptr, o_ptr, N: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x_ptr + i)
    for j in tl.static_range(N):
        v = v * 0.5 + j
    tl.store(o_ptr + i, v)


@triton.jit
def doublings(x_ptr, o_ptr, N: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x_ptr + i)
    for _ in tl.static_range(N):
        v = (v + v) * 0.5
    tl.store(o_ptr + i, v)


@triton.jit
def moves(x_ptr, o_ptr, N: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x_ptr + i)
    for _ in tl.static_range(N):
        v = tl.trans(tl.reshape(v, (B // 4, 4))).reshape(B) + 1
    tl.store(o_ptr + i, v)


@triton.jit
def choices(x_ptr, o_ptr, N: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x_ptr + i)
    for j in tl.static_range(N):
        v = tl.where(v > j, v * 0.5, v + 1)
    tl.store(o_ptr + i, v)


@triton.jit
def masked(x_ptr, o_ptr, N: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x_ptr + i)
    for j in tl.static_range(N):
        v += tl.load(x_ptr + i, mask=i < j)
    tl.store(o_ptr + i, v)


@triton.jit
def offsets(x_ptr, o_ptr, N: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    for _ in tl.static_range(N):
        i = i * 3 + 1
    tl.store(o_ptr + i, tl.load(x_ptr + i))


@pytest.mark.parametrize(
    ("kernel", "steps"),
    [
        (sums, 300),
        *(pytest.param(*chain, marks=_SLOW) for chain in ((doublings, 150), (moves, 100))),
        pytest.param(choices, 60, marks=_SLOW),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_long_chain_is_right_and_clean_under_all_checks(kernel: Any, steps: int) -> None:
    x, out, expected = torch.rand(B), torch.zeros(B), torch.zeros(B)
    with interpret():
        kernel[(1,)](x, expected, steps, B)
    with sanitize(checks="all") as report:
        kernel[(1,)](x, out, steps, B)
    assert torch.equal(out, expected)
    # Not all origins are tracked, which is reported.
    assert [(f.check, f.kind) for f in report.findings] == [("numeric", "unsupported")]


def _overflows(module: Module) -> list[Note]:
    return overflow.apply(module, overflow.find(module, {}, (1, 1, 1)))


@pytest.mark.parametrize(
    ("kernel", "apply"),
    [
        pytest.param(sums, numeric.apply, marks=_SLOW),
        pytest.param(doublings, numeric.apply, marks=_SLOW),
        pytest.param(moves, numeric.apply, marks=_SLOW),
        pytest.param(choices, numeric.apply, marks=_SLOW),
        pytest.param(masked, undefined.apply, marks=_SLOW),
        (sums, undefined.apply),
        pytest.param(offsets, _overflows, marks=_SLOW),
    ],
    ids=lambda value: getattr(value, "__name__", "") + getattr(value, "__module__", ""),
)
def test_twice_the_operations_are_twice_the_work(
    kernel: Any, apply: Callable[[Module], list[Note]]
) -> None:
    # There are more operations than the passes have keys, checks and shadow values for.
    steps = 200 if apply is numeric.apply else 300
    shorter, longer = (_calls(kernel, apply, n) for n in (steps, 2 * steps))
    assert longer < 2.4 * shorter


def _calls(kernel: Any, apply: Callable[[Module], list[Note]], steps: int) -> int:
    """Return the number of function calls of a pass, including those of C functions."""
    arguments = {"x_ptr": torch.zeros(B), "o_ptr": torch.zeros(B)}
    module = parse_module(instrumented.ttir_of(kernel, arguments, {"N": steps, "B": B}))
    count = 0

    def called(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        apply(module)
    finally:
        sys.setprofile(None)
    return count


def test_untracked_operations_of_a_long_kernel_are_reported() -> None:
    arguments = {"x_ptr": torch.zeros(B), "o_ptr": torch.zeros(B)}
    for kernel, apply, words in (
        (masked, undefined.apply, "of more than"),
        (sums, numeric.apply, "of more than 96 paths of NaN"),
    ):
        module = parse_module(instrumented.ttir_of(kernel, arguments, {"N": 400, "B": B}))
        (note,) = apply(module)
        assert words in note.text
