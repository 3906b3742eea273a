"""Unwritten outputs whose addresses a kernel loads from a table, as in grouped matrix products."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.findings.findings import Finding
from ttools.sanitizer import sanitize


@triton.jit
def filled(table_ptr, size_ptr, B: tl.constexpr):
    g = tl.program_id(0)
    out = tl.load(table_ptr + g).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, B)
    tl.store(out + i, 1.0, mask=i < tl.load(size_ptr + g))


def findings_of(sizes: list[int], read: int | None) -> list[Finding]:
    """Return the findings of a launch that writes the first elements of groups of 20 elements.

    Args:
        sizes: Number of elements that are written in each group.
        read: Index of the group that the host reads afterwards, or None.
    """
    with sanitize() as report:
        outs = [torch.empty(20) for _ in sizes]
        unused = torch.empty(20)
        table = torch.tensor([out.data_ptr() for out in [*outs, unused]])
        filled[(len(sizes),)](table, torch.tensor(sizes), B=32)
        if read is not None:
            outs[read].sum()
        del outs, unused
    return list(report.findings)


def test_a_group_that_is_read() -> None:
    (finding,) = findings_of([20, 17, 20], read=1)
    assert (finding.kind, finding.severity) == ("unwritten_output", "error")
    few = "3 of 20 elements of a tensor behind `table_ptr` were never written"
    assert finding.message.startswith(few)
    assert finding.argument is not None
    assert finding.location is not None


@pytest.mark.parametrize(("sizes", "read"), [([20, 17], None), ([20, 17], 0), ([20, 0], 1)])
def test_groups_that_are_not_read_or_not_stored_to(sizes: list[int], read: int | None) -> None:
    assert findings_of(sizes, read) == []
