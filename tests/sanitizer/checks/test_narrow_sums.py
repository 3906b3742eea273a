"""Warnings of the default checks about sums of many integers of 8 or 16 bits that wrap."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from ttools.core.findings.findings import Finding
from ttools.sanitizer import sanitize


def warnings(
    kernel: Any, *arguments: Any, checks: str = "default", **constants: Any
) -> list[Finding]:
    with sanitize(checks=checks) as report:
        kernel[(1,)](*arguments, **constants)
    return list(report.findings)


@triton.jit
def product(a_ptr, b_ptr, c_ptr, K, B: tl.constexpr, TYPE: tl.constexpr):
    acc = tl.zeros([B], TYPE)
    for k in range(0, K, B):
        i = k + tl.arange(0, B)
        acc += tl.load(a_ptr + i).to(TYPE) * tl.load(b_ptr + i).to(TYPE)
    tl.store(c_ptr, tl.sum(acc.to(tl.int32)))


def test_an_accumulator_that_a_loop_adds_to() -> None:
    a, b = torch.full((128,), 8, dtype=torch.int8), torch.full((128,), 4, dtype=torch.int8)
    c = torch.empty(1, dtype=torch.int32)
    (warning,) = warnings(product, a, b, c, 128, B=32, TYPE=tl.int8)
    assert (warning.kind, warning.severity, warning.check) == (
        "int_overflow",
        "warning",
        "overflow",
    )
    assert warning.message == "an int8 sum wraps around and reaches memory (`c_ptr`)"
    assert warning.location is not None
    assert warning.location.line == product.starting_line_number + 5
    assert not warnings(product, a, b, c, 128, B=32, TYPE=tl.int16)
    assert not warnings(product, a, b, c, 128, B=32, TYPE=tl.int32)
    assert not warnings(product, a, b, c, 96, B=32, TYPE=tl.int8)


def test_the_check_numeric_does_not_report_it_twice() -> None:
    a, b = torch.full((128,), 8, dtype=torch.int8), torch.full((128,), 4, dtype=torch.int8)
    c = torch.empty(1, dtype=torch.int32)
    (warning,) = warnings(product, a, b, c, 128, checks="all", B=32, TYPE=tl.int8)
    assert warning.check == "numeric"


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def sums(x_ptr, y_ptr, B: tl.constexpr, MODE: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    if MODE == "dtype":
        tl.store(y_ptr, tl.sum(x, dtype=tl.int8))
    elif MODE == "reduce":
        tl.store(y_ptr, tl.reduce(x, 0, add))
    elif MODE == "scan":
        tl.store(y_ptr + i, tl.associative_scan(x, 0, add))
    elif MODE == "sum":
        tl.store(y_ptr, tl.sum(x))
    else:
        tl.store(y_ptr + i, tl.cumsum(x, 0))


def test_reductions_and_scans() -> None:
    x, y = torch.full((32,), 20, dtype=torch.int8), torch.empty(32, dtype=torch.int32)
    for mode in ("dtype", "reduce", "scan"):
        (warning,) = warnings(sums, x, y, B=32, MODE=mode)
        assert (warning.kind, warning.severity) == ("int_overflow", "warning")
        assert "sum of several elements wraps around and reaches memory" in warning.message
        assert not warnings(sums, x // 20, y, B=32, MODE=mode)
    assert not warnings(sums, x, y, B=32, MODE="sum")


@triton.jit
def single(x_ptr, y_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    tl.store(y_ptr + i, x * 31 + x)


def test_single_sums_are_left_to_the_check_numeric() -> None:
    x, y = torch.full((32,), 20, dtype=torch.int8), torch.empty(32, dtype=torch.int8)
    assert not warnings(single, x, y, B=32)
