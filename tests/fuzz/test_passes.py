"""Tests of compilation without Triton's simplifications."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from ttools.fuzz.passes import fewest_passes
from ttools.interpreter import interpret


@triton.jit
def twice(x):
    return x + x


@triton.jit
def kernel(x_ptr, n):
    lanes = tl.arange(0, 16)
    _ = lanes * 3 + tl.program_id(0)
    a = tl.load(x_ptr + lanes) + 0
    if n > 2:
        a = twice(a)
    tl.store(x_ptr + lanes, a)


def _ttir(n: int, **options: int) -> str:
    x = torch.arange(16)
    with interpret():
        compiled: Any = kernel[(1,)](x, n, **options)
    assert x.tolist() == [v * (2 if n > 2 else 1) for v in range(16)]
    return str(compiled.asm["ttir"])


def test_fewest_passes_do_not_simplify() -> None:
    simplified = _ttir(3)
    with fewest_passes():
        unsimplified = _ttir(3, num_stages=1)
    assert "arith.muli" in unsimplified
    assert "arith.muli" not in simplified
    assert "tt.call" in unsimplified
    assert "tt.call" not in simplified
    assert _ttir(3) == simplified
