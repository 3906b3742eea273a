"""Tests that rarely executed code does the same in separate functions as inline."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from access_forms import FORMS
from observing import observe, part_of
from test_guards import CUTS, check

from ttools.interpreter.abi.module import EmittedModule
from ttools.interpreter.emit import out_of_line
from ttools.interpreter.emit.kernel import emit_kernel
from ttools.interpreter.run import variants

_FORMS = ("scalar_masked", "tail", "gather_masked", "wrapped_back")


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("name", _FORMS)
def test_guards_have_the_same_results(
    name: str, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def stays_inline(lines: object) -> bool:
        calls.append(lines)
        return not apart

    monkeypatch.setattr(out_of_line, "_stays", stays_inline)
    # A different text prevents the use of a compiled kernel.
    form = dataclasses.replace(FORMS[name], index=f"{FORMS[name].index} + {int(apart)} * 0")
    for access in ("load", "atomic"):
        check(form, access, CUTS[1])
    assert calls


@triton.jit
def _add_shifted(x_ptr, y_ptr, old_ptr, N: tl.constexpr):
    rows = tl.arange(0, 2)[:, None]
    columns = tl.arange(0, N)[None, :]
    old = tl.atomic_add(x_ptr + rows + columns, tl.load(y_ptr + rows * N + columns))
    tl.store(old_ptr + rows * N + columns, old)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_elements_of_every_size_are_returned(dtype: torch.dtype) -> None:
    size, end = 32, 20
    x, y = torch.zeros(size + 1, dtype=dtype), torch.arange(2.0 * size).to(dtype).view(2, size)
    old = torch.full((2, size), -1, dtype=dtype)
    observed = observe(
        lambda: _add_shifted[(1,)](x, y, old, size), regions={"x_ptr": part_of(x, 0, end)}
    )
    right = torch.zeros_like(x)
    right_old = torch.zeros_like(old)
    for row in range(2):
        right_old[row, : end - row] = right[row:end]
        right[row:end] += y[row, : end - row]
    torch.testing.assert_close(x, right, rtol=0, atol=0)
    torch.testing.assert_close(old, right_old, rtol=0, atol=0)
    assert observed.only.lanes == 2 * (size - end) + 1


@triton.jit
def _add_three(a_ptr, b_ptr, c_ptr, o_ptr, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    a = tl.load(a_ptr + i, mask=i < n)
    b = tl.load(b_ptr + i, mask=i < n)
    c = tl.load(c_ptr + i, mask=i < n)
    tl.store(o_ptr + i, a + b + c, mask=i < n)


def test_similar_accesses_share_a_function_but_are_reported_separately() -> None:
    n, block, ends = 100, 64, {"a_ptr": 90, "b_ptr": 100, "c_ptr": 37}
    tensors = {name: torch.rand(n) for name in ends}
    out, texts = torch.full((n,), -1.0), list[str]()

    def log_module(*arguments: Any) -> EmittedModule:
        emitted = emit_kernel(*arguments)
        texts.append(emitted.llvm_ir)
        return emitted

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TTOOLS_CACHE", "off")
        patch.setattr(variants, "emit_kernel", log_module)
        observed = observe(
            lambda: _add_three[(2,)](*tensors.values(), out, n, block),
            regions={name: part_of(tensors[name], 0, end) for name, end in ends.items()},
        )
    inside = [torch.where(torch.arange(n) < ends[name], tensors[name], 0.0) for name in ends]
    torch.testing.assert_close(out, inside[0] + inside[1] + inside[2])
    (text,) = texts
    assert len(re.findall(r"^define .*@ttools\.cold\.", text, re.MULTILINE)) == 2
    counts = [(count.witness.site.parameter, count.lanes) for count in observed.counts]
    assert counts == [(0, 10), (2, 63)]
    for count, end in zip(observed.counts, (90, 37), strict=True):
        assert dict(count.witness.values)["i"] == end
        assert count.witness.program == end // block
