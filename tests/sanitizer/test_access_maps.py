"""Maps of tensors in findings agree with the elements that the kernel accesses."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ttools.core.reports.tensor_map import COLLISION, UNTOUCHED
from ttools.sanitizer import sanitize


@triton.jit
def smear_kernel(x_ptr, y_ptr, out_ptr, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    value = tl.load(x_ptr + lanes) + tl.load(y_ptr + lanes)
    tl.store(out_ptr + program * STRIDE + lanes, value)


def test_map_shows_programs_and_their_collisions() -> None:
    x, y, out = torch.arange(16.0), torch.ones(16), torch.zeros(64)
    with sanitize() as checked:
        for _ in range(2):  # all launches of a kernel share their maps
            smear_kernel[(3,)](x, y, out, STRIDE=12, BLOCK=16)
            y = y + 1
    assert [f.kind for f in checked.findings] == ["overlapping_store"]
    (tensor,) = checked.report().maps
    assert (tensor.kernel, tensor.argument.name) == ("smear_kernel", "out_ptr")
    (row,) = tensor.cells
    expected = [0] * 12 + [COLLISION] * 4 + [1] * 8 + [COLLISION] * 4 + [2] * 12
    assert list(row) == expected + [UNTOUCHED] * 24
    assert {tensor.sharers[cell] for cell in range(12, 16)} == {(0, 1)}
    assert tensor.argument.name in checked.to("html")


def test_tensors_that_are_only_read_have_no_map() -> None:
    x, y, out = torch.ones(10), torch.ones(16), torch.zeros(48)
    with sanitize() as checked:
        smear_kernel[(3,)](x, y, out, STRIDE=16, BLOCK=16)
    assert [f.kind for f in checked.findings] == ["oob_load"]
    assert checked.report().maps == ()


def test_no_finding_no_map() -> None:
    x, y, out = torch.ones(16), torch.ones(16), torch.zeros(48)
    with sanitize() as checked:
        smear_kernel[(3,)](x, y, out, STRIDE=16, BLOCK=16)
    assert checked.report().maps == ()
