"""Branches of single programs, quotients of negative numbers, and loops with several bounds."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from tests.prove.test_against_runs import check_claims

from ttools.prove.analysis import Analysis


@triton.jit
def last_kernel(x_ptr, y_ptr, n, SLACK: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    c = pid * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x_ptr + c, mask=c < n, other=0.0), axis=0)
    if pid == tl.num_programs(0) - 1:
        tl.store(y_ptr, total)
    if pid * BLOCK + BLOCK >= n - SLACK:
        tl.store(y_ptr + 1, total)


def _last(n: Any) -> None:
    last_kernel[(triton.cdiv(n, 64),)](torch.randn(n), torch.empty(2), n, SLACK=0, BLOCK=64)


def _last_two(n: Any) -> None:
    last_kernel[(triton.cdiv(n, 64),)](torch.randn(n), torch.empty(2), n, SLACK=1, BLOCK=64)


@triton.jit
def before_kernel(x_ptr, y_ptr, n, less, BLOCK: tl.constexpr):
    c = tl.cdiv(n - less, BLOCK) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + tl.arange(0, BLOCK), tl.load(x_ptr + c, mask=c < n, other=0.0))


def _rounds_to_zero(n: Any) -> None:
    before_kernel[(1,)](torch.randn(n), torch.empty(64), n, 64, BLOCK=64)


def _rounds_below(n: Any) -> None:
    before_kernel[(1,)](torch.randn(n), torch.empty(64), n, 200, BLOCK=64)


@triton.jit
def rolled_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = (c - 1) % n
    tl.store(y_ptr + c, tl.load(x_ptr + tl.where(at < 0, at + n, at), mask=c < n), mask=c < n)


def _rolled(n: Any) -> None:
    rolled_kernel[(triton.cdiv(n, 256),)](torch.randn(n), torch.empty(n), n, BLOCK=256)


@triton.jit
def parts_kernel(x_ptr, y_ptr, n, per, PARTS: tl.constexpr):
    pid = tl.program_id(0)
    end = pid * per + per
    if pid == PARTS - 1:
        end = n
    total = 0.0
    for i in range(pid * per, end):
        total += tl.load(x_ptr + i)
    tl.store(y_ptr + pid, total)


def _parts(n: Any) -> None:
    parts_kernel[(8,)](torch.randn(n), torch.empty(8), n, n // 8, PARTS=8)


def _parts_too_long(n: Any) -> None:
    parts_kernel[(8,)](torch.randn(n), torch.empty(8), n, triton.cdiv(n, 8), PARTS=8)


@triton.jit
def shifted_kernel(x_ptr, y_ptr, n, SLACK: tl.constexpr, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (c - 3).to(tl.uint32) < (n + SLACK).to(tl.uint32)
    tl.store(y_ptr + c, tl.load(x_ptr + c - 3, mask=inside, other=0.0), mask=c < n)


def _shifted(n: Any) -> None:
    shifted_kernel[(triton.cdiv(n, 64),)](torch.randn(n), torch.empty(n), n, SLACK=0, BLOCK=64)


def _shifted_too_far(n: Any) -> None:
    shifted_kernel[(triton.cdiv(n, 64),)](torch.randn(n), torch.empty(n), n, SLACK=1, BLOCK=64)


@triton.jit
def halves_kernel(x_ptr, half):
    pid = tl.program_id(0)
    tl.store(x_ptr + pid, 1.0)
    tl.store(x_ptr + half + pid, 2.0)


def _halves(n: Any) -> None:
    halves_kernel[(n,)](torch.empty(2 * n), min(n, 10))


@pytest.mark.parametrize(
    ("run", "first", "wrong"),
    [
        (_last, 1, None),
        (_last_two, 1, ("overlapping_store", 65)),
        (_rounds_to_zero, 0, None),
        (_rounds_below, 50, ("oob_load", 50)),
        (_rolled, 1, None),
        (_parts, 1, None),
        (_parts_too_long, 1, ("oob_load", 1)),
        (_shifted, 2, None),
        (_shifted_too_far, 2, ("oob_load", 2)),
        (_halves, 1, ("overlapping_store", 11)),
    ],
)
def test_programs_that_differ(
    run: Callable[..., Any], first: int, wrong: tuple[str, int] | None
) -> None:
    result = Analysis(run, {"n": (first, 1 << 20)}).analyse()
    if wrong is None:
        assert (result.verdict, result.abstained) == ("proved", [])
        return
    (defect,) = result.defects
    assert (defect.event.kind, defect.sizes["n"], defect.is_least) == (*wrong, True)
    if first == 1:
        check_claims(type("", (), {"run": staticmethod(run)}))  # type: ignore[arg-type]


@triton.jit
def rows_kernel(x_ptr, y_ptr, n, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for first in range(0, n, BLOCK):
        c = first + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + c, mask=c < n)
        tl.store(y_ptr + row * stride + c, x, mask=c < n)


def _rows(m: Any, n: Any, less: int = 0) -> None:
    x, y = torch.randn(m, n), torch.empty(m, n)
    rows_kernel[(m,)](x, y, n, y.stride(0) - less, BLOCK=32)


def test_rows_may_be_empty() -> None:
    assert Analysis(_rows, {"m": (0, 40), "n": (0, 500)}).analyse().verdict == "proved"


@pytest.mark.parametrize("less", [0, 1])
def test_rows_that_may_be_empty_agree_with_runs(less: int) -> None:
    check_claims(SimpleNamespace(run=lambda n: _rows(3, n - 1, less)))
