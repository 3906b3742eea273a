"""What findings on NaN say besides their line: operands, and where infinities come from."""

from __future__ import annotations

from pathlib import Path

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
    assert both["nan"].message.startswith("0 / 0, or infinity by infinity, is a NaN here")
    assert {("x", "0"), ("y", "0")} <= set(both["nan"].variables)
    assert set(found(ratio, [1.0, 3.0], [1.0, 0.0])) == {"div_by_zero"}
    assert set(found(ratio, [1.0, 2.0], [1.0, 4.0])) == set()
