"""Tests that large integers with few significant bits become infinite when they are rounded to f16.

LLVM's InstCombine takes such conversions for exact and removes the rounding.
"""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

N = 8


@triton.jit
def round_kernel(x_ptr, out_ptr, FORM: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = (tl.load(x_ptr + i) & 7) << 22
    f = x.to(tl.float32)
    if FORM == "directly":
        result = x.to(tl.float16)
    elif FORM == "through float32":
        result = f.to(tl.float16)
    elif FORM == "through float64":
        result = x.to(tl.float64).to(tl.float16)
    elif FORM == "through a view":
        result = tl.reshape(tl.reshape(f, [2, N // 2]).to(tl.float16), [N])
    elif FORM == "through a view of float64":
        result = tl.reshape(tl.reshape(x.to(tl.float64), [2, N // 2]).to(tl.float16), [N])
    elif FORM == "through a choice":
        result = tl.where(i < 30, f, 1.0).to(tl.float16)
    elif FORM == "through a maximum":
        result = tl.maximum(f, 0.0).to(tl.float16)
    elif FORM == "through a loop":
        for _ in range(1):
            f = tl.abs(f)
        result = f.to(tl.float16)
    elif FORM == "rounded by PTX":
        result = tl.inline_asm_elementwise(
            "cvt.rn.f16.f32 $0, $1;", "=h,r", [f], dtype=tl.float16, is_pure=True, pack=1
        )
    elif FORM == "converted by PTX":
        result = tl.inline_asm_elementwise(
            "cvt.rn.f32.s32 $0, $1;", "=r,r", [x.to(tl.int32)], tl.float32, True, 1
        ).to(tl.float16)
    elif FORM == "as a scalar":
        first = ((tl.load(x_ptr + 1) & 7) << 22).to(tl.float16)
        result = tl.where(i == 1, first, f.to(tl.float16))
    tl.store(out_ptr + i, result.to(tl.float32))


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint32, torch.int64], ids=str)
@pytest.mark.parametrize(
    "form",
    [
        "directly",
        "through float32",
        "through float64",
        "through a view",
        "through a view of float64",
        "through a choice",
        "through a maximum",
        "through a loop",
        "rounded by PTX",
        "converted by PTX",
        "as a scalar",
    ],
)
def test_large_integers_become_infinite(form: str, dtype: torch.dtype) -> None:
    x = torch.tensor(range(N)).to(dtype)
    out = torch.empty(N)
    round_kernel[(1,)](x, out, form, N)
    assert out.tolist() == (x.long() << 22).to(torch.float16).float().tolist()
