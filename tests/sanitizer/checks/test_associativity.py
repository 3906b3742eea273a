"""Warnings about combine functions of reductions and scans that depend on the grouping."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.findings.findings import Finding
from ttools.sanitizer import sanitize


def warnings(kernel: Any, *arguments: Any, **constants: Any) -> list[Finding]:
    with sanitize() as report:
        kernel[(2,)](*arguments, **constants)
    assert {finding.kind for finding in report.findings} <= {"not_associative"}
    return list(report.findings)


@triton.jit
def decay(a, b):
    return a * 0.9 + b


@triton.jit
def difference(a, b):
    return a - b


@triton.jit
def saturating(a, b):
    return tl.minimum(a + b, 100)


@triton.jit
def largest_magnitude(a, b):
    return tl.where(tl.abs(a) > tl.abs(b), a, b)


@triton.jit
def log_sum_exp(a, b):
    m = tl.maximum(a, b)
    return m + tl.log(tl.exp(a - m) + tl.exp(b - m))


@triton.jit
def scanned(x_ptr, y_ptr, B: tl.constexpr, NAME: tl.constexpr, REVERSE: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i)
    if NAME == "decay":
        y = tl.associative_scan(x, 0, decay, reverse=REVERSE)
    elif NAME == "difference":
        y = tl.associative_scan(x, 0, difference, reverse=REVERSE)
    elif NAME == "saturating":
        y = tl.associative_scan(x, 0, saturating, reverse=REVERSE)
    elif NAME == "largest_magnitude":
        y = tl.associative_scan(x, 0, largest_magnitude, reverse=REVERSE)
    elif NAME == "log_sum_exp":
        y = tl.associative_scan(x, 0, log_sum_exp, reverse=REVERSE)
    tl.store(y_ptr + i, y)


@triton.jit
def reduced(x_ptr, y_ptr, B: tl.constexpr, NAME: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * B + tl.arange(0, B))
    if NAME == "decay":
        y = tl.reduce(x, 0, decay)
    elif NAME == "difference":
        y = tl.reduce(x, 0, difference)
    elif NAME == "saturating":
        y = tl.reduce(x, 0, saturating)
    elif NAME == "largest_magnitude":
        y = tl.reduce(x, 0, largest_magnitude)
    elif NAME == "log_sum_exp":
        y = tl.reduce(x, 0, log_sum_exp)
    tl.store(y_ptr + tl.program_id(0), y)


def test_the_finding_shows_three_elements_and_both_results() -> None:
    x, y = torch.arange(64.0), torch.empty(64)
    (warning,) = warnings(scanned, x, y, B=32, NAME="decay", REVERSE=False)
    assert (warning.severity, warning.check) == ("warning", "racecheck")
    assert warning.message == (
        f"`decay` (line {decay.starting_line_number + 2}) is not associative: (a∘b)∘c and a∘(b∘c) "
        "differ, and a GPU groups the elements differently"
    )
    assert warning.location is not None
    assert warning.location.line == scanned.starting_line_number + 5
    values = {name: float(text) for name, text in warning.variables}
    assert values == {"a": 1, "b": 2, "c": 3, "(a∘b)∘c": 5.61, "a∘(b∘c)": 5.7}


@pytest.mark.parametrize("combine", ["difference", "decay"])
def test_reductions_and_reverse_scans(combine: str) -> None:
    x = torch.arange(64.0)
    assert warnings(reduced, x, torch.empty(2), B=32, NAME=combine)
    assert warnings(scanned, x, torch.empty(64), B=32, NAME=combine, REVERSE=True)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("combine", ["largest_magnitude", "log_sum_exp"])
def test_associative_functions(combine: str, reverse: bool) -> None:
    x = torch.randn(64) * 10
    assert not warnings(reduced, x, torch.empty(2), B=32, NAME=combine)
    assert not warnings(scanned, x, torch.empty(64), B=32, NAME=combine, REVERSE=reverse)
    x[::2] = float("-inf")
    assert not warnings(scanned, x, torch.empty(64), B=32, NAME=combine, REVERSE=reverse)


def test_only_the_elements_of_the_launch_count() -> None:
    y = torch.empty(64, dtype=torch.int32)
    small = torch.ones(64, dtype=torch.int32)
    assert not warnings(scanned, small, y, B=32, NAME="saturating", REVERSE=False)
    large = torch.tensor([90, 20, -50, 0] * 16, dtype=torch.int32)
    assert warnings(scanned, large, y, B=32, NAME="saturating", REVERSE=False)


@triton.jit
def affine(g, a, h, b):
    return g * h, a * h + b


@triton.jit
def segmented(f, a, g, b):
    return f | g, tl.where(g != 0, b, a + b)


@triton.jit
def segmented_by_factor(f, a, g, b):
    return f | g, b + (1 - g) * a


@triton.jit
def welford(mean, m2, weight, other_mean, other_m2, other_weight):
    delta = other_mean - mean
    total = weight + other_weight
    share = tl.where(total == 0, 0.0, other_weight / total)
    return mean + delta * share, m2 + other_m2 + delta * delta * weight * share, total


@triton.jit
def wrong_welford(mean, m2, weight, other_mean, other_m2, other_weight):
    delta = other_mean - mean
    total = weight + other_weight
    return mean + delta * 0.5, m2 + other_m2 + delta * delta * weight * 0.5, total


@triton.jit
def first_largest(a, i, b, j):
    takes = (a > b) | ((a == b) & (i < j))
    return tl.where(takes, a, b), tl.where(takes, i, j)


@triton.jit
def online_softmax(m, d, n, e):
    top = tl.maximum(m, n)
    return top, d * tl.exp(m - top) + e * tl.exp(n - top)


@triton.jit
def pairs(f_ptr, x_ptr, y_ptr, B: tl.constexpr, NAME: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    f, x = tl.load(f_ptr + i), tl.load(x_ptr + i)
    if NAME == "affine":
        _, y = tl.associative_scan((f, x), 0, affine)
    elif NAME == "segmented":
        _, y = tl.associative_scan((f, x), 0, segmented)
    elif NAME == "segmented_by_factor":
        _, y = tl.associative_scan((f, x), 0, segmented_by_factor)
    elif NAME == "first_largest":
        _, y = tl.associative_scan((f, x), 0, first_largest)
    elif NAME == "online_softmax":
        _, y = tl.associative_scan((f, x), 0, online_softmax)
    tl.store(y_ptr + i, y)


@triton.jit
def moments(x_ptr, y_ptr, N: tl.constexpr, B: tl.constexpr, NAME: tl.constexpr):
    row = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + row[:, None] * B + tl.arange(0, B)[None, :])
    zero, one = tl.zeros([N, B], tl.float32), tl.full([N, B], 1.0, tl.float32)
    if NAME == "welford":
        mean, m2, weight = tl.reduce((x, zero, one), 1, welford)
    elif NAME == "wrong_welford":
        mean, m2, weight = tl.reduce((x, zero, one), 1, wrong_welford)
    tl.store(y_ptr + row, mean + m2 + weight)


@triton.jit
def library(x_ptr, y_ptr, i_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    top, at = tl.max(x, 0, return_indices=True)
    low = tl.argmin(x, 0, tie_break_left=False)
    tl.store(y_ptr, tl.sum(x) + top + tl.xor_sum(i, 0))
    tl.store(y_ptr + 1 + i, tl.cumsum(x) * tl.cumprod(x))
    tl.store(i_ptr, at + low)


def test_tuples_that_make_a_recurrence_associative() -> None:
    x, y = torch.randn(64), torch.empty(64)
    assert not warnings(pairs, torch.rand(64), x, y, B=32, NAME="affine")
    assert not warnings(pairs, torch.full((64,), 0.9), x * 1e6, y, B=32, NAME="affine")
    half = x.half()
    assert not warnings(pairs, torch.rand(64).half(), half, y.half(), B=32, NAME="affine")
    assert not warnings(pairs, torch.randn(64), torch.rand(64), y, B=32, NAME="online_softmax")


def test_segmented_scans_need_flags_and_not_any_values() -> None:
    flags = (torch.arange(64) % 5 == 0).int()
    x, y = torch.randint(-9, 9, (64,), dtype=torch.int32), torch.empty(64, dtype=torch.int32)
    assert not warnings(pairs, flags, x, y, B=32, NAME="segmented")
    assert not warnings(pairs, flags, x, y, B=32, NAME="segmented_by_factor")
    assert warnings(pairs, 1 + flags, x, y, B=32, NAME="segmented_by_factor")


@pytest.mark.parametrize("mean", [0.0, 5e5])
def test_moments(mean: float) -> None:
    x, y = torch.randn(8, 32) * 1000 + mean, torch.empty(8)
    assert not warnings(moments, x, y, N=4, B=32, NAME="welford")
    assert warnings(moments, x, y, N=4, B=32, NAME="wrong_welford")


def test_functions_that_choose_by_value_and_index() -> None:
    x = torch.tensor([1.0, 3.0, 3.0, -2.0] * 16)
    index, y = torch.arange(64, dtype=torch.int32), torch.empty(64, dtype=torch.int32)
    assert not warnings(pairs, x, index, y, B=32, NAME="first_largest")


def test_functions_of_the_library_are_not_tested() -> None:
    y, i = torch.empty(33), torch.empty(1, dtype=torch.int32)
    with sanitize() as report:
        library[(1,)](torch.randn(32), y, i, B=32)
    assert not report.findings
