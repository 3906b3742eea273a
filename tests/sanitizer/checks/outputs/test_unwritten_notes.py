"""Findings on reads of unwritten memory name the elements of the argument that are unwritten."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize


@triton.jit
def total(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0)))


def _all() -> torch.Tensor:
    return torch.empty(12)


def _tail() -> torch.Tensor:
    x = torch.empty(12)
    x[:9] = 1
    return x


def _column() -> torch.Tensor:
    x = torch.empty(3, 4)
    x[:, 1:] = 1
    return x


def _view() -> torch.Tensor:
    x = torch.zeros(24)
    x.resize_(40)
    return x[20:32]


@pytest.mark.parametrize(("make", "notes"), [
    (_all, ["none of its elements had been written"]),
    (_tail, ["never written: elements 9 to 11 of 12"]),
    (_column, ["never written: elements 0, 4, 8 of 12",
               "the first by index: [0, 0], [1, 0], [2, 0]"]),
    (_view, ["never written: elements 4 to 11 of 12"]),
])  # fmt: skip
def test_elements_of_the_argument(make: Callable[[], torch.Tensor], notes: list[str]) -> None:
    with sanitize() as report:
        total[(1,)](make(), torch.empty(1), 12, B=16)
    (finding,) = report.findings
    assert finding.message.startswith("elements that were never written are read, and they reach")
    assert list(finding.notes) == notes


@triton.jit
def added(o_ptr):
    tl.atomic_add(o_ptr + tl.program_id(0), 1.0)


def test_atomics() -> None:
    with sanitize() as report:
        added[(2,)](torch.empty(3))
    (finding,) = report.findings
    assert finding.notes == ("none of its elements had been written",)
