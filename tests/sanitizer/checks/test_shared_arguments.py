"""Two written arguments that share elements lead to a note; other arguments do not."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize


@triton.jit
def both_written(x_ptr, y_ptr, stride, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i * stride, 1.0)
    tl.store(y_ptr + i * stride, 2.0)


@triton.jit
def one_written(x_ptr, y_ptr, stride, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y_ptr + i * stride, tl.load(x_ptr + i * stride))


ROWS = torch.zeros(16, 2)
FLAT = torch.zeros(64)


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (FLAT, FLAT, True),
        (FLAT[:16], FLAT[15:31], True),
        (FLAT[:16], FLAT[16:32], False),
        (ROWS[:, 0], ROWS[:, 1], False),
        (ROWS[:, 0], ROWS[:, 0], True),
        (ROWS[:, 0], ROWS, True),
        (torch.zeros(16), torch.zeros(16), False),
    ],
)
def test_written_arguments(x: torch.Tensor, y: torch.Tensor, expected: bool) -> None:
    stride = x.stride(0)
    with sanitize(checks="memcheck", view_bounds="off") as report:
        both_written[(1,)](x, y, stride, B=16)
    notes = [finding for finding in report.findings if finding.kind == "shared_arguments"]
    assert [finding.severity for finding in notes] == ["note"] * expected
    if expected:
        assert notes[0].message == "`x_ptr` and `y_ptr` are both written and share memory"
    with sanitize(checks="memcheck", view_bounds="off") as report:
        one_written[(1,)](x, y, stride, B=16)
    assert report.findings == []


def test_one_launch_of_many() -> None:
    """Analyse launches separately, even if they have the same tensors as earlier ones."""
    x, y = torch.zeros(16), torch.zeros(16)
    with sanitize(checks="memcheck") as report:
        for other in (y, y, x, y):
            both_written[(1,)](x, other, 1, B=16)
    assert [finding.kind for finding in report.findings] == ["shared_arguments"]
