"""Findings on NaN name the operands and the origins of the infinities."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.findings.findings import Finding
from ttools.sanitizer import sanitize


@triton.jit
def difference(x_ptr, y_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    grown = tl.exp(x)  # exp
    y = tl.load(y_ptr + i)
    turned = 1.0 / y  # division
    d = grown - turned
    tl.store(o_ptr + i, d)


@triton.jit
def ratio(x_ptr, y_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    tl.store(o_ptr + i, x / y)


def found(kernel: object, x: list[float], y: list[float]) -> dict[str, Finding]:
    with sanitize(checks="numeric") as report:
        arguments = torch.tensor(x), torch.tensor(y), torch.empty(len(x))
        kernel[(1,)](*arguments, B=len(x))  # type: ignore[index]
    return {finding.kind: finding for finding in report.findings}


def origins(finding: Finding) -> set[str]:
    lines = Path(__file__).read_text("utf-8").splitlines()
    assert {related.message for related in finding.related} <= {"the infinity originates here"}
    places = [related.location for related in finding.related]
    return {lines[place.line - 1].rpartition("# ")[2] for place in places if place is not None}


def test_a_nan_names_the_origins_of_its_infinities() -> None:
    inf = float("inf")
    nan = found(difference, [1.0, 100.0], [1.0, 0.0])["nan"]
    assert origins(nan) == {"exp", "division"}
    assert {("grown", "inf"), ("turned", "inf")} <= set(nan.variables)
    assert not any(name.startswith("born") for name, _ in nan.variables)
    nan = found(difference, [inf, 1.0], [0.0, 1.0])["nan"]
    assert origins(nan) == {"division"}


def test_zero_by_zero() -> None:
    both = found(ratio, [1.0, 0.0], [1.0, 0.0])
    assert set(both) == {"nan", "div_by_zero"}
    assert both["nan"].message.startswith("0 / 0, or infinity / infinity, is a NaN here")
    assert {("x", "0"), ("y", "0")} <= set(both["nan"].variables)
    assert set(found(ratio, [1.0, 3.0], [1.0, 0.0])) == {"div_by_zero"}
    assert set(found(ratio, [1.0, 2.0], [1.0, 4.0])) == set()


@triton.jit
def normed(x_ptr, y_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    r = tl.rsqrt(tl.sum(x * x * y / B) + tl.sum(y))  # root
    tl.store(o_ptr + i, x * r)


def test_the_nearest_of_many_origins_is_named() -> None:
    nan = found(normed, [0.0, 0.0], [0.0, 0.0])["nan"]
    assert origins(nan) == {"root"}
    assert nan.message.startswith("0 times infinity is a NaN here")
    assert nan.help is not None
    assert nan.help.startswith("keep both finite")


@triton.jit
def elementary(x_ptr, y_ptr, o_ptr, OP: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    if OP == "sum":
        o = x + y
    elif OP == "difference":
        o = x - y
    elif OP == "root":
        o = tl.sqrt(x)
    else:
        o = tl.log(x)
    tl.store(o_ptr + i, o)


@pytest.mark.parametrize(("op", "x", "y", "words"), [
    ("sum", math.inf, -math.inf, "the sum of two opposite infinities"),
    ("difference", -math.inf, -math.inf, "infinity minus infinity"),
    ("root", -1.0, 0.0, "the root of a negative number"),
    ("logarithm", -1.0, 0.0, "the logarithm of a negative number"),
])  # fmt: skip
def test_the_cause_of_a_nan_is_described(op: str, x: float, y: float, words: str) -> None:
    with sanitize(checks="numeric") as report:
        left, right = torch.full((16,), x), torch.full((16,), y)
        elementary[(1,)](left, right, torch.empty(16), OP=op, B=16)
    (finding,) = report.findings
    assert finding.message == f"{words} is a NaN here and reaches memory (`o_ptr`)"


@triton.jit
def iterated(x_ptr, o_ptr, steps, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    y = x
    for _ in range(steps):
        y = tl.fma(y, y, x) / (1.0 + y)
    tl.store(o_ptr + tl.arange(0, N), y)


@pytest.mark.parametrize(("factor", "kinds"), [(1.0, set()), (1e30, {"inf", "nan"})])
def test_an_overflow_can_return_to_its_operation_in_a_loop(factor: float, kinds: set[str]) -> None:
    x, out = torch.rand(32) * factor, torch.empty(32)
    with sanitize(checks="numeric") as checked:
        iterated[(1,)](x, out, 3, N=32)
    assert {finding.kind for finding in checked.findings} <= kinds
    assert bool(checked.findings) == bool(kinds)
