"""Notes on masks that compare an offset within a block with the bound of the whole tensor."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.findings.findings import Finding
from ttools.sanitizer import sanitize


def findings_of(kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> Any:
    with sanitize(checks="memcheck") as report:
        kernel[grid](*arguments, **constants)
    return list(report.findings)


def notes(findings: list[Finding]) -> list[str]:
    return [finding.message for finding in findings if finding.kind == "local_mask"]


@triton.jit
def heads(q_ptr, H, BH: tl.constexpr, D: tl.constexpr):
    base = q_ptr + tl.program_id(0) * H * D + tl.program_id(1) * BH * D
    off = tl.arange(0, BH)[:, None] * D + tl.arange(0, D)[None, :]
    inside = off < H * D
    tl.store(base + off, tl.load(base + off, mask=inside) * 3.0, mask=inside)


@triton.jit
def heads_fixed(q_ptr, H, BH: tl.constexpr, D: tl.constexpr):
    base = q_ptr + tl.program_id(0) * H * D + tl.program_id(1) * BH * D
    off = tl.arange(0, BH)[:, None] * D + tl.arange(0, D)[None, :]
    inside = (tl.program_id(1) * BH + tl.arange(0, BH) < H)[:, None]
    tl.store(base + off, tl.load(base + off, mask=inside) * 3.0, mask=inside)


def test_the_error_and_the_note_name_what_the_mask_lacks() -> None:
    findings = findings_of(heads, (2, 2), torch.ones(2, 5, 8), 5, BH=4, D=8)
    errors = [finding for finding in findings if finding.kind.startswith("oob")]
    text = (
        "the mask lacks `32 * program_id(1)`, by which the pointer has moved: every lane passes "
        "`inside = off < H * D`"
    )
    assert {finding.kind for finding in errors} == {"oob_load", "oob_store"}
    assert all((finding.help or "").startswith(text) for finding in errors)
    assert set(notes(findings)) == {text}
    assert findings_of(heads_fixed, (2, 2), torch.ones(2, 5, 8), 5, BH=4, D=8) == []


def test_the_note_does_not_need_a_size_that_fails() -> None:
    (note,) = findings_of(heads, (2, 2), torch.ones(2, 8, 8), 8, BH=4, D=8)
    assert (note.kind, note.severity, note.check) == ("local_mask", "note", "memcheck")
    assert findings_of(heads_fixed, (2, 2), torch.ones(2, 8, 8), 8, BH=4, D=8) == []
    assert findings_of(heads, (2, 1), torch.ones(2, 4, 8), 4, BH=4, D=8) == []


@triton.jit
def rows_sum(x_ptr, y_ptr, M, K, stride, BM: tl.constexpr, BK: tl.constexpr, FIXED: tl.constexpr):
    rows, cols = tl.arange(0, BM), tl.arange(0, BK)
    pointers = x_ptr + rows[:, None] * stride + cols[None, :]
    total = tl.zeros((BM,), tl.float32)
    for k in range(tl.cdiv(K, BK)):
        left = K - k * BK if FIXED else K
        x = tl.load(pointers, mask=(rows < M)[:, None] & (left > cols)[None, :], other=0.0)
        total += tl.sum(x, 1)
        pointers += BK
    tl.store(y_ptr + rows, total, mask=rows < M)


def test_pointers_that_a_loop_moves() -> None:
    x, y = torch.ones(3, 32), torch.zeros(3)
    (note,) = findings_of(rows_sum, (1,), x, y, 3, 32, 32, BM=4, BK=16, FIXED=False)
    assert note.kind == "local_mask"
    assert note.message.startswith("the mask lacks 16 for each iteration of the loop in line")
    assert findings_of(rows_sum, (1,), x, y, 3, 32, 32, BM=4, BK=16, FIXED=True) == []


@triton.jit
def by_rows(x_ptr, n, stride, B: tl.constexpr):
    offs = tl.arange(0, B)
    pointers = x_ptr + tl.program_id(0) * stride + offs
    tl.store(pointers, tl.load(pointers, mask=offs < n) + 1.0, mask=offs < n)


@triton.jit
def redundant(x_ptr, n, stride, B: tl.constexpr):
    offs = tl.arange(0, B)
    start = tl.program_id(0) * B
    mask = (offs < n) & (start + offs < n)
    tl.store(x_ptr + start + offs, 1.0, mask=mask)


@triton.jit
def by_count(x_ptr, count_ptr, stride, B: tl.constexpr):
    offs = tl.arange(0, B)
    n = tl.load(count_ptr + tl.program_id(0))
    tl.store(x_ptr + tl.program_id(0) * B + offs, 1.0, mask=offs < n)


@pytest.mark.parametrize(("n", "stride"), [(32, 32), (20, 32), (32, 40), (7, 7), (1, 32)])
def test_rows_with_a_mask_of_columns_have_no_note(n: int, stride: int) -> None:
    assert notes(findings_of(by_rows, (4,), torch.ones(200), n, stride, B=32)) == []


def test_masks_that_contain_the_program_elsewhere_have_no_note() -> None:
    assert findings_of(redundant, (3,), torch.ones(80), 80, 32, B=32) == []
    count = torch.tensor([32, 7, 96])
    assert notes(findings_of(by_count, (3,), torch.ones(200), count, 32, B=32)) == []


def test_a_failure_after_many_launches_is_explained() -> None:
    with sanitize(checks="memcheck") as report:
        for programs in range(1, 18):
            heads_fixed[(programs, 2)](torch.ones(17, 8, 8), 8, BH=4, D=8)
            heads[(programs, 1)](torch.ones(17, 4, 8), 4, BH=4, D=8)
        assert list(report.findings) == []
        heads[(2, 2)](torch.ones(2, 5, 8), 5, BH=4, D=8)
    errors = [finding for finding in report.findings if finding.kind.startswith("oob")]
    assert errors
    assert all((finding.help or "").startswith("the mask lacks") for finding in errors)
