"""Sentences of findings that depend on where exactly something is."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize


@triton.jit
def read_at(x_ptr, out_ptr, at):
    tl.store(out_ptr, tl.load(x_ptr + at))


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (8, "the access begins right after the last of them"),
        (9, "the access is 4 bytes past the last of them"),
        (-1, "the access is 4 bytes before the first of them"),
        (10, "the access begins at its end"),
    ],
)
def test_where_an_access_misses_a_slice(at: int, said: str) -> None:
    with sanitize(checks="memcheck") as report:
        read_at[(1,)](torch.zeros(14)[4:12], torch.zeros(1), at)
    (found,) = report.findings
    assert found.notes[0] == said


@triton.jit
def waits_for_ever(flags_ptr, n: tl.constexpr):
    while tl.atomic_add(flags_ptr, 0) < n:
        pass


@pytest.mark.parametrize(
    ("programs", "said"),
    [(1, "program (0, 0, 0) waits here"), (2, "programs (0, 0, 0), (1, 0, 0) wait here")],
)
def test_who_waits_where_the_finding_stands(programs: int, said: str) -> None:
    with sanitize(checks="deadlock") as report:
        waits_for_ever[(programs,)](torch.zeros(1, dtype=torch.int32), 5)
    (found,) = report.findings
    assert found.notes[0] == said
