"""Counts of findings agree with sets of offsets: out of bounds, outside views, stored twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ttools.sanitizer import sanitize

R, C, PROGRAMS, LARGEST = 4, 16, 3, 400
#: Triton does not specialise on these arguments, so that the examples need no recompilation.
_NUMBERS = ["first", "sp", "s0", "s1", "n0", "n1"]


@triton.jit(do_not_specialize=_NUMBERS)
def stores(x_ptr, first, sp, s0, s1, n0, n1, R: tl.constexpr, C: tl.constexpr):
    p = tl.program_id(0)
    r, c = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    at = first + p * sp + r * s0 + c * s1
    tl.store(x_ptr + at, (p + 1).to(tl.float32), mask=(r < n0) & (c < n1))


@triton.jit(do_not_specialize=_NUMBERS)
def loads(x_ptr, o_ptr, first, sp, s0, s1, n0, n1, R: tl.constexpr, C: tl.constexpr):
    p = tl.program_id(0)
    r, c = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    at = first + p * sp + r * s0 + c * s1
    x = tl.load(x_ptr + at, mask=(r < n0) & (c < n1), other=0.0)
    tl.store(o_ptr + p * R * C + r * C + c, x)


@triton.jit
def scatters(x_ptr, index_ptr, keep_ptr, B: tl.constexpr):
    p = tl.program_id(0)
    i = p * B + tl.arange(0, B)
    at, keep = tl.load(index_ptr + i), tl.load(keep_ptr + i)
    tl.store(x_ptr + at, (p + 1).to(tl.float32), mask=keep != 0)


@dataclass(frozen=True)
class Walk:
    """Offsets that a kernel accesses, relative to the first element of the view that is passed."""

    first: int
    by_program: int
    strides: tuple[int, int]
    extents: tuple[int, int]

    @property
    def numbers(self) -> tuple[int, ...]:
        return (self.first, self.by_program, *self.strides, *self.extents)

    def offsets(self) -> list[list[int]]:
        """Return the offsets of the active lanes of each program."""
        rows, columns = (range(n) for n in (min(self.extents[0], R), min(self.extents[1], C)))
        s0, s1 = self.strides
        return [
            [self.first + p * self.by_program + r * s0 + c * s1 for r in rows for c in columns]
            for p in range(PROGRAMS)
        ]


@dataclass(frozen=True)
class View:
    """A view of a storage, which lies inside the storage."""

    storage: int
    shape: tuple[int, int]
    strides: tuple[int, int]
    start: int

    def tensor(self) -> torch.Tensor:
        return torch.zeros(self.storage).as_strided(self.shape, self.strides, self.start)

    def members(self) -> set[int]:
        """Return the offsets of the elements, relative to the start of the storage."""
        rows, columns = (range(n) for n in self.shape)
        return {
            self.start + r * self.strides[0] + c * self.strides[1] for r in rows for c in columns
        }


walks = st.builds(
    Walk,
    first=st.integers(-8, 40),
    by_program=st.integers(-4, 70),
    strides=st.tuples(st.integers(-3, 24), st.sampled_from([1, 1, 1, 2, 3, 0, -1])),
    extents=st.tuples(st.integers(0, R), st.integers(0, C)),
)


@st.composite
def views(draw: st.DrawFn) -> View:
    shape = (draw(st.integers(1, 6)), draw(st.integers(1, 20)))
    strides = (draw(st.integers(0, 24)), draw(st.sampled_from([1, 1, 2, 3, 0])))
    start = draw(st.integers(0, 12))
    needed = start + 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    return View(needed + draw(st.integers(0, 40)), shape, strides, start)


def expected(view: View, offsets: list[list[int]], access: str) -> dict[str, int]:
    """Return the number of lanes of each kind of finding.

    Lanes leave the storage or the view, or they store where another program does.
    """
    members = view.members()
    at = [[view.start + offset for offset in program] for program in offsets]
    lanes = [element for program in at for element in program]
    inside = [element for element in lanes if 0 <= element < view.storage]
    counts = Counter({f"oob_{access}": len(lanes) - len(inside)})
    counts["view_oob"] = sum(element not in members for element in inside)
    if access == "store":
        writers = Counter(element for program in at for element in set(program))
        counts["overlapping_store"] = sum(writers[element] > 1 for element in inside)
    return {kind: count for kind, count in counts.items() if count}


DENSE = View(LARGEST, (20, 20), (20, 1), 0)


@settings(max_examples=60, deadline=None)
@given(views(), walks)
@example(DENSE, Walk(0, 64, (16, 1), (R, C)))
@example(DENSE, Walk(-1, 0, (0, 0), (1, 1)))
@example(View(40, (1, 40), (40, 1), 0), Walk(0, 16, (16, 1), (1, C)))
@example(View(1, (1, 1), (0, 1), 0), Walk(0, 0, (0, 0), (1, 3)))
@example(View(9, (3, 3), (3, 1), 0), Walk(0, 1, (1, 0), (R, C)))
def test_stores_against_sets_of_offsets(view: View, walk: Walk) -> None:
    x = view.tensor()
    with sanitize(checks="memcheck,racecheck", max_findings=1000) as report:
        stores[(PROGRAMS,)](x, *walk.numbers, R=R, C=C)
    counts = {finding.kind: finding.count for finding in report.findings}
    assert counts == expected(view, walk.offsets(), "store")


@settings(max_examples=60, deadline=None)
@given(views(), walks)
@example(DENSE, Walk(390, 1, (0, 1), (1, C)))
def test_loads_against_sets_of_offsets(view: View, walk: Walk) -> None:
    x, o = view.tensor(), torch.empty(PROGRAMS * R * C)
    with sanitize(checks="memcheck,racecheck", max_findings=1000) as report:
        loads[(PROGRAMS,)](x, o, *walk.numbers, R=R, C=C)
    counts = {finding.kind: finding.count for finding in report.findings}
    assert counts == expected(view, walk.offsets(), "load")


@settings(max_examples=60, deadline=None)
@given(views(), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_scatters_against_sets_of_offsets(view: View, seed: int, share: float) -> None:
    random = np.random.default_rng(seed)
    index = random.integers(-4, view.storage - view.start + 4, (PROGRAMS, R * C))
    keep = random.random((PROGRAMS, R * C)) < share
    offsets = [row[kept].tolist() for row, kept in zip(index, keep, strict=True)]
    x = view.tensor()
    with sanitize(checks="memcheck,racecheck", max_findings=1000) as report:
        scatters[(PROGRAMS,)](x, torch.tensor(index), torch.tensor(keep.astype(np.int8)), B=R * C)
    counts = {finding.kind: finding.count for finding in report.findings}
    assert counts == expected(view, offsets, "store")


def test_programs_of_other_threads_are_not_counted_as_lanes() -> None:
    """Store from each program to all elements, and from each of its lanes to its own element."""
    programs, block = 64, 1024
    index = torch.stack([torch.randperm(block) for _ in range(programs)])
    keep = torch.ones(programs, block, dtype=torch.int8)
    for _ in range(5):
        with sanitize(checks="racecheck") as report:
            scatters[(programs,)](torch.zeros(block), index, keep, B=block)
        (finding,) = report.findings
        assert "several programs" in finding.message
        assert finding.count == programs * block


@triton.jit
def scatters_values(x_ptr, index_ptr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    at = tl.load(index_ptr + i)
    tl.store(x_ptr + at, (at * 0 + tl.program_id(0)).to(tl.float32))


@pytest.mark.parametrize("kernel", [scatters, scatters_values])
def test_lanes_that_store_equal_values_beside_programs_that_race(kernel: Any) -> None:
    programs, block = 64, 1024
    index = torch.stack([torch.randperm(block) for _ in range(programs)])
    index[:, 5] = index[:, 900]
    keep = (torch.ones(programs, block, dtype=torch.int8),) if kernel is scatters else ()
    for _ in range(5):
        with sanitize(checks="racecheck") as report:
            kernel[(programs,)](torch.zeros(block), index, *keep, B=block)
        finding = max(report.findings, key=lambda finding: finding.severity == "error")
        assert "several programs" in finding.message
