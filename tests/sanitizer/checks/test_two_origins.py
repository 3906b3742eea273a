"""A load has undefined lanes and reads memory that was never written: both are reported."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ttools.core.findings.findings import merge
from ttools.sanitizer import sanitize

# mypy: disable-error-code="no-untyped-def"


@triton.jit
def half_undefined(x_ptr, o_ptr, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(o_ptr + offs, x + 1)


def test_undefined_lanes_do_not_hide_unwritten_memory() -> None:
    with sanitize() as checked:
        half_undefined[(1,)](torch.empty(64), torch.zeros(64), 40, B=64)
    findings = [finding for finding in checked.findings if finding.kind == "uninit_read"]
    assert [(finding.origin, finding.count) for finding in findings] == [
        ("masked", 24),
        ("memory", 40),
    ]
    assert len(merge([*findings, *findings])) == 2
    assert "never written" in checked.to("text")
