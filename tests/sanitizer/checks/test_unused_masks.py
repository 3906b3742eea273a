"""Notes on masks that a kernel computes and never uses, next to an access without a mask."""

# ruff: noqa: F841
from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.findings.findings import Finding
from ttools.interpreter.analysis.unused_masks import (
    _unused_conditions,
    unused_masks,
    with_unused_masks,
)
from ttools.sanitizer import sanitize


def findings_of(kernel: Any, *arguments: Any, **constants: Any) -> list[Finding]:
    with sanitize(checks="memcheck") as report:
        kernel[(1,)](*arguments, **constants)
    return list(report.findings)


@triton.jit
def forgets(x_ptr, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows, cols = tl.arange(0, BM), tl.arange(0, BN)
    offs = rows[:, None] * N + cols[None, :]
    inside = (rows < M)[:, None] & (cols < N)[None, :]
    x = tl.load(x_ptr + offs, mask=(rows < M)[:, None] & (cols < N)[None, :])
    tl.store(y_ptr + offs, x)


@triton.jit
def uses(x_ptr, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows, cols = tl.arange(0, BM), tl.arange(0, BN)
    offs = rows[:, None] * N + cols[None, :]
    inside = (rows < M)[:, None] & (cols < N)[None, :]
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=inside), mask=inside)


def test_a_forgotten_mask_is_named_by_the_note_and_by_the_error() -> None:
    x, y = torch.ones(3, 5), torch.ones(3, 5)
    error, note = findings_of(forgets, x, y, 3, 5, BM=4, BN=8)
    assert (note.kind, note.severity, note.check) == ("unused_mask", "note", "memcheck")
    assert note.location is not None
    assert note.location.name == "inside"
    assert f"mask `inside` is never used, and the store in line {note.location.line + 2}" in (
        note.message
    )
    assert note.related[0].location == error.location
    assert error.help == (
        f"pass `inside` (line {note.location.line}), which is never used, as the mask of this store"
    )


def test_the_note_does_not_need_a_size_that_fails() -> None:
    x = torch.ones(4, 8)
    (note,) = findings_of(forgets, x, torch.ones(4, 8), 4, 8, BM=4, BN=8)
    assert note.kind == "unused_mask"
    assert findings_of(uses, x, torch.ones(4, 8), 4, 8, BM=4, BN=8) == []


@triton.jit
def forgets_negative_indices(x_ptr, index_ptr, y_ptr, B: tl.constexpr):
    offs = tl.arange(0, B)
    index = tl.load(index_ptr + offs)
    counts_from_the_end = index < 0
    is_padding = index == -1
    tl.store(y_ptr + offs, tl.load(x_ptr + index))


def test_a_condition_that_only_negative_indices_satisfy_is_not_a_mask() -> None:
    index = torch.tensor([0, -1, 2, 1])
    (error,) = findings_of(forgets_negative_indices, torch.ones(4), index, torch.ones(4), B=4)
    assert error.kind == "oob_load"
    assert error.help is not None
    assert "where `index >= 0`" in error.help


@triton.jit
def forgets_in_a_loop(x_ptr, y_ptr, n, B: tl.constexpr):
    pointers = x_ptr + tl.arange(0, B)
    offs = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for start in range(0, n, B):
        mask = start + offs < n
        total += tl.load(x_ptr + start + offs)
    tl.store(y_ptr + offs, total)


@triton.jit
def store_of_a_function(y_ptr, offs, n, value):
    inside = offs < n
    tl.store(y_ptr + offs, value)


@triton.jit
def calls(_x_ptr, y_ptr, n, B: tl.constexpr):
    store_of_a_function(y_ptr, tl.arange(0, B), n, 1.0)


@triton.jit
def adds_without(_x_ptr, y_ptr, n, B: tl.constexpr):
    offs = tl.arange(0, B)
    mask = offs < n
    mask &= offs >= 0
    tl.atomic_add(y_ptr + offs, 1.0)


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [(forgets_in_a_loop, "load"), (calls, "store"), (adds_without, "atomic access")],
)
def test_loops_functions_and_atomics(kernel: Any, kind: str) -> None:
    (note,) = findings_of(kernel, torch.ones(16), torch.zeros(16), 16, B=16)
    assert note.kind == "unused_mask"
    assert f"the {kind} in line" in note.message


@triton.jit
def forgets_the_bound_of_an_index(x_ptr, index_ptr, y_ptr, n, limit, B: tl.constexpr):
    offs = tl.arange(0, B)
    inside = offs < n
    index = tl.load(index_ptr + offs, mask=inside, other=0)
    valid = (index >= 0) & (index < limit)
    tl.store(y_ptr + offs, tl.load(x_ptr + index, mask=inside), mask=inside)


def test_a_bound_of_a_loaded_index_that_another_mask_does_not_contain() -> None:
    x, y, index = torch.ones(16), torch.zeros(16), torch.arange(16)
    (note,) = findings_of(forgets_the_bound_of_an_index, x, index, y, 16, 16, B=16)
    assert note.location is not None
    assert note.message == (
        f"mask `valid` is never used, and the load in line {note.location.line + 1} has a mask "
        "that does not depend on its indices"
    )
    assert note.help == "combine `valid` with the mask of the load, or remove the variable"
    error, _ = findings_of(forgets_the_bound_of_an_index, x, index * 2, y, 16, 16, B=16)
    assert error.help == (
        f"combine `valid` (line {note.location.line}), which is never used, with the mask of this "
        "load"
    )


@triton.jit
def forgets_rows_that_the_load_wraps(x_ptr, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows, cols = tl.arange(0, BM), tl.arange(0, BN)
    real = rows[:, None] < M
    inner = (cols < N)[None, :]
    x = tl.load(x_ptr + (rows % M)[:, None] * N + cols[None, :], mask=inner)
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], x, mask=inner)


def test_an_access_that_wraps_the_index_needs_no_mask() -> None:
    x, y = torch.ones(3, 5), torch.ones(3, 5)
    error, note = findings_of(forgets_rows_that_the_load_wraps, x, y, 3, 5, BM=4, BN=8)
    assert note.location is not None
    assert error.location is not None
    assert note.related[0].location == error.location
    assert error.help == (
        f"combine `real` (line {note.location.line}), which is never used, with the mask of this "
        "store"
    )


@triton.jit
def masks_rows_and_columns(x_ptr, y_ptr, n, B: tl.constexpr, EVEN: tl.constexpr):
    offs = tl.arange(0, B)
    in_rows = (offs < n)[:, None]
    at = offs[:, None] + offs[None, :] * 0
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=(offs < n)[:, None]), mask=(offs < n)[:, None])


@triton.jit
def even_or_masked(x_ptr, y_ptr, n, B: tl.constexpr, EVEN: tl.constexpr):
    offs = tl.arange(0, B)
    mask = offs < n
    if EVEN:
        tl.store(y_ptr + offs, tl.load(x_ptr + offs))
    else:
        tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=mask), mask=mask)


@triton.jit
def ignores_on_purpose(x_ptr, y_ptr, n, B: tl.constexpr, EVEN: tl.constexpr):
    offs = tl.arange(0, B)
    _mask = offs < n
    tl.store(y_ptr + offs, 1.0)


@triton.jit
def of_other_indices(x_ptr, y_ptr, n, B: tl.constexpr, EVEN: tl.constexpr):
    offs, others = tl.arange(0, B), tl.arange(0, B)
    causal = offs[:, None] >= offs[None, :]
    other = others < n
    wide = tl.arange(0, 2 * B) < n
    by_value = tl.load(x_ptr + offs) > 0.0
    tl.store(y_ptr + offs, 1.0)
    tl.store(y_ptr + offs[:, None] * 0 + offs[None, :], 1.0)


@triton.jit
def after_the_access(x_ptr, y_ptr, n, B: tl.constexpr, EVEN: tl.constexpr):
    offs = tl.arange(0, B)
    tl.store(y_ptr + offs, 1.0)
    mask = offs < n


@triton.jit
def for_values(x_ptr, y_ptr, n, B: tl.constexpr, EVEN: tl.constexpr):
    offs = tl.arange(0, B)
    mask = offs < n
    tl.store(y_ptr + offs, tl.where(mask, tl.load(x_ptr + offs), 0.0))


@triton.jit
def of_one_lane(x_ptr, y_ptr, n, B: tl.constexpr, EVEN: tl.constexpr):
    row = tl.program_id(0) + tl.arange(0, 1)[:, None]
    mask = row < n
    tl.store(y_ptr + row, 1.0)


@pytest.mark.parametrize(
    "kernel",
    [
        *(even_or_masked, ignores_on_purpose, of_other_indices, after_the_access, for_values),
        *(of_one_lane, masks_rows_and_columns),
    ],
)
def test_ordinary_kernels_have_no_note(kernel: Any) -> None:
    found = findings_of(kernel, torch.ones(16), torch.zeros(16), 16, B=16, EVEN=True)
    assert [finding for finding in found if finding.kind == "unused_mask"] == []


def test_modules_that_cannot_be_read_have_no_notes() -> None:
    assert unused_masks("") == []
    assert with_unused_masks("module {\n}\n", "module {\n}\n") == "module {\n}\n"


def test_a_condition_is_unused_if_its_name_occurs_only_in_its_definition() -> None:
    text = """#loc = loc("kernel.py":1:1)
#loc2 = loc("kernel.py":2:5)
module {
  tt.func public @kernel(%n: tensor<4xi32> loc(#loc)) {
    %1 = arith.cmpi slt, %n, %n : tensor<4xi32> loc(#loc3)
    %12 = arith.cmpi slt, %n, %n : tensor<4xi32> loc(#loc4)
    %x = arith.andi %12, %y#0 : tensor<4xi1> loc(#loc5)
    %x.2 = arith.addi %n, %n : tensor<4xi32> loc(#loc6)
    %3 = arith.xori %x, %x : tensor<4xi1> loc(#loc7)
    %4 = "arith.cmpi"(%n, %n) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1> loc(#loc)
    tt.return loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc3 = loc("one"(#loc2))
#loc4 = loc("twelve"(#loc2))
#loc5 = loc("x"(#loc2))
#loc6 = loc("sum"(#loc2))
#loc7 = loc("three"(#loc2))
"""
    assert [place.name for place in _unused_conditions(text)] == ["one", "three"]
