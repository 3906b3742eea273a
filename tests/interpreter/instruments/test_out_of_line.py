"""Seldom code does the same in functions of its own as in its place."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import triton
import triton.language as tl
from access_forms import FORMS
from observing import observe, part_of
from test_guards import CUTS, check

from ttools.interpreter.emit import out_of_line

_FORMS = ("scalar_masked", "tail", "gather_masked", "wrapped_back")


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("name", _FORMS)
def test_guards_judge_alike(name: str, apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    parameters = out_of_line._parameters

    def told(*arguments: object) -> object:
        calls.append(parameters(*arguments) if apart else None)  # type: ignore[arg-type]
        return calls[-1]

    monkeypatch.setattr(out_of_line, "_parameters", told)
    # A text of its own, of which nothing has been compiled.
    form = dataclasses.replace(FORMS[name], index=f"{FORMS[name].index} + {int(apart)} * 0")
    for access in ("load", "atomic"):
        check(form, access, CUTS[1])
    assert calls
    assert all(found is not None for found in calls) == apart


@triton.jit
def _add_shifted(x_ptr, y_ptr, old_ptr, N: tl.constexpr):
    rows = tl.arange(0, 2)[:, None]
    columns = tl.arange(0, N)[None, :]
    old = tl.atomic_add(x_ptr + rows + columns, tl.load(y_ptr + rows * N + columns))
    tl.store(old_ptr + rows * N + columns, old)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_elements_of_every_size_are_put_together_again(dtype: torch.dtype) -> None:
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
