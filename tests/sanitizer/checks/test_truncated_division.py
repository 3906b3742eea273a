"""Notes on quotients and remainders of negative integers, which Python would floor."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.findings.findings import Finding
from ttools.sanitizer import sanitize


def notes(kernel: Any, at: int, n: int = 3, **constants: Any) -> list[Finding]:
    x, o = torch.arange(16, dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    with sanitize(checks="numeric") as report:
        kernel[(1,)](x, o, at, n, B=16, **constants)
    return [finding for finding in report.findings if finding.kind == "truncated_division"]


@triton.jit
def remainder(x_ptr, o_ptr, at, n, B: tl.constexpr):
    slot = at % n
    tl.store(o_ptr, slot)


@triton.jit
def quotient(x_ptr, o_ptr, at, n, B: tl.constexpr):
    i = tl.arange(0, B)
    half = (i + at) // n
    tl.store(o_ptr + i, half * 2 + 1, mask=i < 4)


@triton.jit
def address(x_ptr, o_ptr, at, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + 4 + (i + at) % n)
    tl.store(o_ptr + i, x)


@pytest.mark.parametrize("kernel", [remainder, quotient, address])
def test_negative_operands_are_reported_with_values(kernel: Any) -> None:
    (note,) = notes(kernel, -5)
    assert (note.severity, note.check) == ("note", "numeric")
    symbol = "`//`" if kernel is quotient else "`%`"
    assert note.message.startswith(f"an operand of {symbol} is negative: the result is truncated")
    assert {"-5", "3"} <= {value for _, value in note.variables}
    assert notes(kernel, 5) == []


def test_results_that_are_equal_are_not_reported() -> None:
    assert notes(remainder, -6) == []
    assert notes(remainder, -5, -3) == []
    (note,) = notes(remainder, 5, -3)
    assert note.kind == "truncated_division"


@triton.jit
def twice(x_ptr, o_ptr, at, n, B: tl.constexpr):
    tl.store(o_ptr, (at % n + n) % n)


@triton.jit
def corrected(x_ptr, o_ptr, at, n, B: tl.constexpr):
    slot = at % n
    tl.store(o_ptr, tl.where(slot < 0, slot + n, slot))


@triton.jit
def branching(x_ptr, o_ptr, at, n, B: tl.constexpr):
    slot = at % n
    if slot < 0:
        slot += n
    tl.store(o_ptr, slot)


@triton.jit
def chosen(x_ptr, o_ptr, at, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.where(i + at >= 0, (i + at) // n, -1))


@triton.jit
def masked(x_ptr, o_ptr, at, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + (i + at) // n, mask=i + at >= 0, other=0)
    tl.store(o_ptr + i, x)


@triton.jit
def library(x_ptr, o_ptr, at, n, B: tl.constexpr):
    tl.store(o_ptr, tl.cdiv(at, n))


@triton.jit
def programs(x_ptr, o_ptr, at, n, B: tl.constexpr):
    p = tl.program_id(0)
    tl.store(o_ptr + p // 4 + p % 4, 1)


@pytest.mark.parametrize("kernel", [twice, corrected, branching, chosen, masked, library, programs])
def test_kernels_that_take_care_of_the_sign_are_not_reported(kernel: Any) -> None:
    assert notes(kernel, -5) == []
