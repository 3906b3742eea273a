"""Reads of unwritten memory name the launches that stored to other elements of the tensor."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ttools.core.findings.findings import Finding
from ttools.sanitizer import sanitize


@triton.jit
def split(x_ptr, part_ptr, n, splits, B: tl.constexpr):
    s = tl.program_id(0)
    size = tl.cdiv(n, splits)
    first = s * size
    if first < n:
        i = first + tl.arange(0, B)
        x = tl.load(x_ptr + i, mask=i < tl.minimum(first + size, n), other=0.0)
        tl.store(part_ptr + s, tl.sum(x))


@triton.jit
def merge(part_ptr, out_ptr, splits, S: tl.constexpr):
    s = tl.arange(0, S)
    tl.store(out_ptr, tl.sum(tl.load(part_ptr + s, mask=s < splits, other=0.0)))


def run(n: int, *, writes: bool = True) -> list[Finding]:
    with sanitize() as report:
        x, part, out = torch.ones(n), torch.empty(4), torch.empty(1)
        if writes:
            split[(4,)](x, part, n, 4, B=16)
        merge[(1,)](part, out, 4, S=4)
    return list(report.findings)


def test_the_finding_names_the_launch_that_left_the_elements_unwritten() -> None:
    (finding,) = run(5)
    assert finding.kind == "uninit_read"
    (writer,) = finding.related
    assert writer.message == (
        "this launch of `split` stores to the tensor, but not to these elements"
    )
    assert writer.location is not None
    assert writer.location.line == run.__code__.co_firstlineno + 4
    assert not run(8)


def test_without_such_a_launch_none_is_named() -> None:
    (finding,) = run(5, writes=False)
    assert finding.kind == "uninit_read"
    assert finding.related == ()
