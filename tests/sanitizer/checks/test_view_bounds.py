"""Severity of accesses outside the view but inside the storage, by access and by option."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.sanitizer import sanitize

ACCESSES = ("load", "store", "atomic")


@triton.jit
def touch(x_ptr, out_ptr, HOW: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    if HOW == "load":
        tl.store(out_ptr + i, tl.load(x_ptr + i))
    elif HOW == "store":
        tl.store(x_ptr + i, tl.load(out_ptr + i))
    else:
        tl.atomic_add(x_ptr + i, tl.load(out_ptr + i))


def severities(how: str, view: torch.Tensor, **options: Any) -> list[str]:
    with sanitize(**options) as report:
        touch[(1,)](view, torch.zeros(16), how, 16)
    assert {finding.kind for finding in report.findings} <= {"view_oob"}
    return [finding.severity for finding in report.findings]


@pytest.mark.parametrize("how", ACCESSES)
def test_writes_outside_the_view_are_errors(how: str) -> None:
    assert severities(how, torch.zeros(4, 16)[1, :12]) == ["warning" if how == "load" else "error"]


@pytest.mark.parametrize("how", ACCESSES)
def test_between_the_rows_of_a_view(how: str) -> None:
    view = torch.zeros(2, 16)[:, :4]
    assert severities(how, view) == ["warning" if how == "load" else "error"]


@pytest.mark.parametrize("how", ACCESSES)
def test_accesses_outside_a_one_element_view_are_warnings(how: str) -> None:
    assert severities(how, torch.zeros(64)[8:9]) == ["warning"]


@pytest.mark.parametrize("how", ACCESSES)
@pytest.mark.parametrize("asked", ["error", "warning"])
def test_the_option_sets_one_severity_for_all(how: str, asked: str) -> None:
    assert severities(how, torch.zeros(4, 16)[1, :12], view_bounds=asked) == [asked]
    assert severities(how, torch.zeros(64)[8:9], view_bounds=asked) == [asked]


@pytest.mark.parametrize("how", ACCESSES)
def test_off(how: str) -> None:
    assert severities(how, torch.zeros(4, 16)[1, :12], view_bounds="off") == []


@pytest.mark.parametrize("how", ACCESSES)
def test_inside_the_view(how: str) -> None:
    assert severities(how, torch.zeros(4, 16)[1]) == []
