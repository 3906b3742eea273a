"""What kernels say of their arguments: hints in the source, and what they were compiled for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.findings import Finding
from ttools.core.location import source_line
from ttools.sanitizer import sanitize

EIGHT = tl.constexpr(8)


def findings(launch: Any) -> list[Finding]:
    with sanitize(checks="hints") as report:
        launch()
    return report.findings


def texts(found: list[Finding]) -> list[tuple[str | None, str]]:
    """Argument and source line of each."""
    return [
        (
            f.argument.name if f.argument else None,
            source_line(f.location.file, f.location.line).strip() if f.location else "",
        )
        for f in found
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
    assert finding.notes == ("its value 35 is no multiple",)
    ((argument, line),) = texts([finding])
    assert argument == "s"
    assert "multiple_of(s, " in line


@pytest.mark.parametrize("kernel", [reassigned, in_a_branch])
def test_a_hint_that_is_not_about_what_is_passed(kernel: Any) -> None:
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
    found = findings(lambda: compiled[(1, 1, 1)](x[1:], o, 50, 64))
    line = "def doubled(x_ptr, o_ptr, n, B: tl.constexpr):"
    assert texts(found) == [("x_ptr", line), ("n", line)]
    # Launched by name it is compiled anew, for what it gets.
    assert findings(lambda: doubled[(1,)](x[1:], o, 50, B=64)) == []


@triton.jit
def in_an_arm(x_ptr, stride, ALIGNED: tl.constexpr):
    step = tl.multiple_of(stride, 16) if ALIGNED else stride
    tl.store(x_ptr + tl.program_id(0) * step, 1.0)


def test_a_hint_in_an_arm_that_is_not_taken() -> None:
    with sanitize() as report:
        in_an_arm[(3,)](torch.empty(40), 12, ALIGNED=False)
    assert report.findings == []
