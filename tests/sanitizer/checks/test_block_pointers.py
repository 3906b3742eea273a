"""Uses of lanes that a block pointer leaves undefined are warnings.

GPUs return zeros for such lanes, and much existing code relies on that.
"""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.triton_versions import triton_version
from ttools.sanitizer import sanitize

pytestmark = pytest.mark.skipif(triton_version() >= (3, 8), reason="has no block pointers")


@triton.jit
def summed(x_ptr, o_ptr, rows, PADS: tl.constexpr, B: tl.constexpr):
    first = tl.program_id(0) * B
    block = tl.make_block_ptr(x_ptr, (rows, B), (B, 1), (first, 0), (B, B), (1, 0))
    if PADS:
        x = tl.load(block, boundary_check=(0,), padding_option="zero")
    else:
        x = tl.load(block, boundary_check=(0,))
    tl.store(o_ptr + first + tl.arange(0, B), tl.sum(x, 0))


def test_lanes_without_padding_are_a_warning() -> None:
    with sanitize() as report:
        summed[(2,)](torch.rand(20, 16), torch.empty(32), 20, PADS=False, B=16)
    (finding,) = report.findings
    assert (finding.kind, finding.severity) == ("uninit_read", "warning")
    assert finding.message.startswith("lanes of this block that lie out of bounds are undefined")
    assert finding.help is not None
    assert finding.help.startswith('give the load `padding_option="zero"`')


def test_lanes_with_padding_are_not_reported() -> None:
    with sanitize() as report:
        summed[(2,)](torch.rand(20, 16), torch.empty(32), 20, PADS=True, B=16)
    assert report.findings == []
