"""An integer overflow that leads out of bounds is one finding, located at the overflow."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize


@triton.jit
def gathered(x_ptr, index_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.load(index_ptr + i) * 4
    tl.store(o_ptr + i, tl.load(x_ptr + at))
    tl.store(o_ptr + i + n, 1.0)


def found(checks: str, index: list[int], n: int = 0) -> list[tuple[str, int]]:
    positions = torch.tensor(index, dtype=torch.int8)
    with sanitize(checks=checks) as report:
        gathered[(1,)](torch.rand(128), positions, torch.empty(32), n, B=16)
    return [(finding.kind, finding.count) for finding in report.findings]


WRAPS = [*range(14), 40, 50]


@pytest.mark.parametrize("n", [0, 16])
def test_one_finding(n: int) -> None:
    assert found("memcheck,overflow", WRAPS, n) == [("int_overflow", 2)]
    assert found("memcheck", WRAPS, n) == [("oob_load", 2)]


def test_it_names_the_access_that_follows() -> None:
    with sanitize() as report:
        index = torch.tensor(WRAPS, dtype=torch.int8)
        gathered[(1,)](torch.rand(128), index, torch.empty(32), 0, B=16)
    (finding,) = report.findings
    (related,) = finding.related
    assert related.message == "the overflow leads outside the memory of `x_ptr` here, in 2 lanes"
    assert related.location is not None
    assert finding.location is not None
    assert related.location.line == finding.location.line + 1


def test_other_defects_are_reported_separately() -> None:
    # Another access is also out of bounds, and so are more lanes of the same access.
    assert found("memcheck,overflow", WRAPS, 24) == [("oob_store", 8), ("int_overflow", 2)]
    with sanitize(checks="memcheck,overflow") as report:
        index = torch.tensor([*range(13), 20, 40, 50], dtype=torch.int8)
        gathered[(1,)](torch.rand(64), index, torch.empty(32), 0, B=16)
    kinds = [(finding.kind, finding.count) for finding in report.findings]
    assert kinds == [("oob_load", 3), ("int_overflow", 2)]
