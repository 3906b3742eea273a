"""Hints on arguments in the source, and specialisations of compiled kernels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.findings.findings import Finding
from ttools.core.location import source_line
from ttools.sanitizer import sanitize

EIGHT = tl.constexpr(8)


def findings(launch: Any) -> list[Finding]:
    with sanitize(checks="hints") as report:
        launch()
    return report.findings


def texts(reported: list[Finding]) -> list[tuple[str | None, str]]:
    """Return the argument and the source line of each finding."""
    return [
        (
            f.argument.name if f.argument else None,
            source_line(f.location.file, f.location.line).strip() if f.location else "",
        )
        for f in reported
    ]


@triton.jit
def literal(x_ptr, s):
    s = tl.multiple_of(s, 16)
    tl.store(x_ptr + s, 1.0)


@triton.jit
def constant(x_ptr, s):
    tl.store(x_ptr + tl.multiple_of(s, EIGHT), 1.0)


@triton.jit
def in_a_list(x_ptr, s):
    stride = tl.multiple_of(s, [8])
    tl.store(x_ptr + stride, 1.0)


@triton.jit
def chained(x_ptr, s):
    s = tl.multiple_of(tl.multiple_of(s, 8), 1)
    tl.store(x_ptr + s, 1.0)


@triton.jit
def after_another(x_ptr, s):
    s = tl.multiple_of(s, 1)
    s = tl.multiple_of(s, 8)
    tl.store(x_ptr + s, 1.0)


@triton.jit
def reassigned(x_ptr, s):
    s = s * 8
    s = tl.multiple_of(s, 8)
    tl.store(x_ptr + s, 1.0)


@triton.jit
def in_a_branch(x_ptr, s):
    if s > 100:
        s = tl.multiple_of(s, 8)
    tl.store(x_ptr + s, 1.0)


@triton.jit
def of_a_pointer(x_ptr, s):
    x_ptr = tl.multiple_of(x_ptr, 16)
    tl.store(x_ptr + s, 1.0)


@pytest.mark.parametrize("kernel", [literal, constant, in_a_list, chained, after_another])
def test_a_hint_about_a_number(kernel: Any) -> None:
    x = torch.zeros(64)
    assert findings(lambda: kernel[(1,)](x, 32)) == []
    (finding,) = findings(lambda: kernel[(1,)](x, 35))
    assert finding.kind == "bad_hint"
    assert finding.notes == ("its value 35 is not a multiple",)
    ((argument, line),) = texts([finding])
    assert argument == "s"
    assert "multiple_of(s, " in line


@pytest.mark.parametrize("kernel", [reassigned, in_a_branch])
def test_a_hint_that_does_not_concern_the_argument(kernel: Any) -> None:
    assert findings(lambda: kernel[(1,)](torch.zeros(64), 3)) == []


def test_a_hint_about_an_address() -> None:
    x = torch.zeros(64)
    assert findings(lambda: of_a_pointer[(1,)](x, 3)) == []
    (finding,) = findings(lambda: of_a_pointer[(1,)](x[1:], 3))
    assert texts([finding]) == [("x_ptr", "x_ptr = tl.multiple_of(x_ptr, 16)")]
    assert finding.notes[0].startswith("its address 0x")


@triton.jit
def doubled(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


def test_a_compiled_kernel_is_launched_with_other_arguments() -> None:
    x, o = torch.rand(65), torch.zeros(65)
    compiled = doubled.warmup(x, o, 64, B=64, grid=(1,))
    assert findings(lambda: compiled[(1, 1, 1)](x, o, 48, 64)) == []
    reported = findings(lambda: compiled[(1, 1, 1)](x[1:], o, 50, 64))
    line = "def doubled(x_ptr, o_ptr, n, B: tl.constexpr):"
    assert texts(reported) == [("x_ptr", line), ("n", line)]
    # A launch by name compiles the kernel for the new arguments.
    assert findings(lambda: doubled[(1,)](x[1:], o, 50, B=64)) == []


@triton.jit
def in_an_arm(x_ptr, stride, ALIGNED: tl.constexpr):
    step = tl.multiple_of(stride, 16) if ALIGNED else stride
    tl.store(x_ptr + tl.program_id(0) * step, 1.0)


def test_a_hint_in_an_arm_that_is_not_taken() -> None:
    with sanitize() as report:
        in_an_arm[(3,)](torch.empty(40), 12, ALIGNED=False)
    assert report.findings == []


def test_a_hint_in_an_arm_that_is_taken() -> None:
    (finding,) = findings(lambda: in_an_arm[(3,)](torch.empty(40), 12, ALIGNED=True))
    assert texts([finding])[0][0] == "stride"
    assert finding.location is not None
    assert finding.location.column > 1
    assert findings(lambda: in_an_arm[(3,)](torch.empty(40), 16, ALIGNED=True)) == []


@triton.jit
def by_constants(x_ptr, bias_ptr, stride, A: tl.constexpr, EVEN: tl.constexpr):
    WIDE: tl.constexpr = A >= 8 and not EVEN
    if WIDE:
        step = stride
        step = tl.multiple_of(step, A * 2)
    elif bias_ptr is not None:
        stride = tl.multiple_of(stride, 4)
    else:
        stride = tl.multiple_of(stride, 5)
    tl.store(x_ptr + stride, 1.0)


@pytest.mark.parametrize(
    ("a", "even", "bias", "kept", "broken"),
    [(8, False, False, 16, 24), (8, True, True, 4, 5), (4, False, False, 5, 4)],
)
def test_branches_that_constants_choose(
    a: int, even: bool, bias: bool, kept: int, broken: int
) -> None:
    def launch(stride: int) -> None:
        tensor = torch.zeros(4) if bias else None
        by_constants[(1,)](torch.zeros(64), tensor, stride, A=a, EVEN=even)

    assert findings(lambda: launch(kept)) == []
    (finding,) = findings(lambda: launch(broken))
    assert finding.notes == (f"its value {broken} is not a multiple",)


@triton.jit
def aligned_row(x_ptr, row, stride, TO: tl.constexpr):
    stride = tl.multiple_of(stride, TO)
    return x_ptr + row * stride


@triton.jit
def rows(x_ptr, s, TO: tl.constexpr, OTHER: tl.constexpr):
    if OTHER:
        row = aligned_row(x_ptr, 1, stride=s + 1, TO=TO)
    else:
        row = aligned_row(x_ptr, 1, s, TO)
    tl.store(row, 1.0)


def test_a_hint_in_a_function_about_its_parameter() -> None:
    x = torch.zeros(64)
    assert findings(lambda: rows[(1,)](x, 12, TO=4, OTHER=False)) == []
    assert findings(lambda: rows[(1,)](x, 10, TO=4, OTHER=True)) == []
    (finding,) = findings(lambda: rows[(1,)](x, 10, TO=4, OTHER=False))
    assert texts([finding]) == [("s", "stride = tl.multiple_of(stride, TO)")]
    assert finding.location is not None
    (caller,) = finding.location.callers
    assert source_line(caller.file, caller.line).strip() == "row = aligned_row(x_ptr, 1, s, TO)"


@triton.jit
def left_early(x_ptr, s, EARLY: tl.constexpr):
    if EARLY:
        tl.store(x_ptr + s, 1.0)
        return
    s = tl.multiple_of(s, 8)
    tl.store(x_ptr + s, 2.0)


def test_a_hint_behind_a_return() -> None:
    x = torch.zeros(64)
    assert findings(lambda: left_early[(1,)](x, 3, EARLY=True)) == []
    assert len(findings(lambda: left_early[(1,)](x, 3, EARLY=False))) == 1
