"""Undefined lanes of block pointers are less severe; IR, since newer Tritons lack the syntax."""

from __future__ import annotations

from typing import Any

import instrumented
import pytest
import torch
import triton
import triton.language as tl

from ttools.interpreter.analysis.positions import position_of
from ttools.sanitizer.passes import undefined


@triton.jit
def summed(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n), 0))


@pytest.mark.parametrize("is_block", [False, True])
def test_undefined_lanes_of_block_pointers_are_less_severe(is_block: bool) -> None:
    arguments: dict[str, Any] = {"x_ptr": torch.rand(16), "o_ptr": torch.zeros(1), "n": 10}
    module = instrumented.parsed(summed, arguments, {"B": 16})
    (load,) = (op for op in module.kernel.walk() if op.name == "tt.load")
    place = position_of(load.location)
    assert place is not None
    undefined.apply(module, unpadded=frozenset({place} if is_block else ()))
    (check,) = (op for op in module.kernel.walk() if op.name == "ttools.check")
    assert check.attributes["severity"] == ("warning" if is_block else "")
    assert ("of this block" in str(check.attributes["message"])) is is_block
