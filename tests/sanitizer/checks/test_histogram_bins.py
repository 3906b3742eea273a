"""Values outside the bins of a histogram, masked and not masked."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.findings.findings import Finding
from ttools.sanitizer import sanitize

B, BINS = 32, 8


@triton.jit
def counted(x_ptr, mask_ptr, o_ptr, MASKED: tl.constexpr, B: tl.constexpr, BINS: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i)
    if MASKED:
        h = tl.histogram(x, BINS, mask=tl.load(mask_ptr + i) != 0)
    else:
        h = tl.histogram(x, BINS)
    tl.store(o_ptr + tl.program_id(0) * BINS + tl.arange(0, BINS), h)


def found(x: torch.Tensor, mask: torch.Tensor | None = None, **constants: Any) -> list[Finding]:
    o = torch.empty(x.numel() // B * BINS, dtype=torch.int32)
    with sanitize() as report:
        counted[(x.numel() // B,)](
            x, mask, o, MASKED=mask is not None, **{"B": B, "BINS": BINS, **constants}
        )
    return list(report.findings)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        *((dtype, n) for dtype in (torch.int32, torch.uint32) for n in (0, 7, 8, 9, 30_000)),
        *((torch.int32, n) for n in (-1, -300)),
    ],
)
def test_values_without_a_bin_are_reported(dtype: torch.dtype, value: int) -> None:
    x = torch.arange(2 * B, dtype=torch.int64).remainder(BINS)
    x[B + 5] = value
    findings = found(x.to(dtype))
    if 0 <= value < BINS:
        assert not findings
        return
    (finding,) = findings
    assert (finding.kind, finding.severity, finding.count) == ("oob_bin", "warning", 1)
    assert (finding.program, finding.lane) == ((1, 0, 0), (5,))
    assert "outside its 8 bins" in finding.message
    assert finding.variables == (("value", str(value)),)


def test_masked_lanes_may_hold_any_value() -> None:
    x = torch.arange(B, dtype=torch.int32) - 4
    inside = (x >= 0) & (x < BINS)
    assert not found(x, inside.to(torch.int8))
    (finding,) = found(x, (~inside).to(torch.int8))
    assert finding.count == int((~inside).sum())
